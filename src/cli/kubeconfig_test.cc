#include "cli/kubeconfig.h"

#include <cstdlib>
#include <fstream>

#include "cli/dev_cluster.h"
#include "cli/yaml.h"

namespace moor::cli {
namespace {

using testing::HasSubstr;

std::string error_of(const Result<ClusterAccess>& access) {
  return access ? "" : access.error().message;
}

class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "moor-cli-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Directory() { std::filesystem::remove_all(path); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  void write(const std::string& name, std::string_view text) const { std::ofstream(path / name) << text; }
  std::filesystem::path path;
};

constexpr const char* kPlain = R"(
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "http://127.0.0.1:6440"}
contexts:
- name: x
  context: {cluster: c, namespace: elsewhere}
current-context: x
)";

TEST(Yaml, ReadsWhatPeopleWrite) {
  const auto json =
      parse_yaml("a: 1\nb: [x, 'y', \"3\"]\nc: {d: true, e: ~, f: 1.5}\ng: |\n  two\n  lines\n");
  ASSERT_TRUE(json.ok()) << json.error().message;
  EXPECT_EQ(to_text(*json),
            R"({"a":1,"b":["x","y","3"],"c":{"d":true,"e":null,"f":1.5},"g":"two\nlines\n"})");
}

TEST(Yaml, RefusesWhatTwoReadersCouldUnderstandDifferently) {
  EXPECT_THAT(parse_yaml("a: 1\na: 2\n").error().message, HasSubstr("line 2: the key 'a' stands twice"));
  EXPECT_FALSE(parse_yaml("a: !!binary aGk=\n").ok());
  EXPECT_FALSE(parse_yaml("a: 1\n---\nb: 2\n").ok());
  EXPECT_FALSE(parse_yaml("a: [1, 2\n").ok());
  EXPECT_TRUE(parse_yaml("").value().is_null());
}

TEST(Yaml, AnAliasCannotGrowWithoutBound) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) text += (k == 0 ? "*a" : ", *a") + std::to_string(i - 1);
    text += "]\n";
  }
  EXPECT_THAT(parse_yaml(text).error().message, HasSubstr("too many values"));
}

TEST(Kubeconfig, PlainHttpNeedsNoUser) {
  const auto access = parse_kubeconfig(kPlain, "/");
  ASSERT_TRUE(access.ok()) << error_of(access);
  EXPECT_EQ(access->client.endpoint.to_string(), "http://127.0.0.1:6440");
  EXPECT_EQ(access->space, "elsewhere");
}

TEST(Kubeconfig, CredentialsComeInlineOrFromFilesBesideIt) {
  const Directory directory;
  directory.write("ca.pem", "authority");
  directory.write("token", "secret\n");
  const std::string text = R"(
clusters: [{name: c, cluster: {server: "https://h:1", certificate-authority: ca.pem, tls-server-name: n}}]
users: [{name: u, user: {client-certificate-data: Y2VydA==, client-key-data: a2V5, tokenFile: token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
)";
  const auto access = parse_kubeconfig(text, directory.path);
  ASSERT_TRUE(access.ok()) << error_of(access);
  EXPECT_EQ(access->client.tls.ca_pem, "authority");
  EXPECT_EQ(access->client.tls.certificate_pem, "cert");
  EXPECT_EQ(access->client.tls.key_pem, "key");
  EXPECT_EQ(access->client.tls.server_name, "n");
  EXPECT_EQ(access->client.bearer_token, "secret");
  EXPECT_TRUE(access->client.tls.verify);
}

TEST(Kubeconfig, SaysWhatIsWrongWithIt) {
  const auto with = [](const std::string& cluster, const std::string& user) {
    return error_of(parse_kubeconfig("clusters: [{name: c, cluster: {" + cluster +
                                         "}}]\nusers: [{name: u, user: {" + user +
                                         "}}]\ncontexts: [{name: x, context: {cluster: c, user: "
                                         "u}}]\ncurrent-context: x\n",
                                     "/"));
  };
  const std::string server = "server: \"https://h:1\"";
  EXPECT_EQ(with(server, ""), "");
  EXPECT_THAT(with("a: b", ""), HasSubstr("no server"));
  EXPECT_THAT(with(server, "exec: {command: x}"), HasSubstr("'exec' is not supported"));
  EXPECT_THAT(with(server, "client-key-data: a2V5"), HasSubstr("needs its key"));
  EXPECT_THAT(with(server + ", certificate-authority-data: '***'", ""), HasSubstr("not base64"));
  EXPECT_THAT(error_of(parse_kubeconfig("a: b", "/")), HasSubstr("current-context"));
  EXPECT_THAT(error_of(parse_kubeconfig("current-context: x\ncontexts: []", "/")), HasSubstr("'x'"));
}

TEST(Kubeconfig, TheOptionBeatsTheEnvironmentAndThatTheDevCluster) {
  const Directory directory;
  std::map<std::string, std::string> variables = {{"XDG_STATE_HOME", directory.path.string()}};
  const Environment environment = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_TRUE(find_kubeconfig("", environment).is(Errc::not_found));
  ASSERT_TRUE(write_dev_cluster(*dev_cluster_note(environment), "/d").ok());
  EXPECT_EQ(find_kubeconfig("", environment)->path, "/d/kubeconfig");
  variables["KUBECONFIG"] = "/k:/other";
  EXPECT_EQ(find_kubeconfig("", environment)->path, "/k");
  variables["MOOR_KUBECONFIG"] = "/m";
  EXPECT_EQ(find_kubeconfig("", environment)->path, "/m");
  EXPECT_EQ(find_kubeconfig("/given", environment)->path, "/given");
  forget_dev_cluster(*dev_cluster_note(environment), "/another");
  EXPECT_TRUE(read_dev_cluster(*dev_cluster_note(environment)).has_value());
  forget_dev_cluster(*dev_cluster_note(environment), "/d");
  EXPECT_FALSE(read_dev_cluster(*dev_cluster_note(environment)).has_value());
}

}  // namespace
}  // namespace moor::cli
