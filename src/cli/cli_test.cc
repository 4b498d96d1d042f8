// Whole command lines against a registry in memory: what is printed where, what is written, which exit code.
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "cli/app.h"
#include "cli/objects.h"
#include "registry/testing/world.h"

namespace moor::cli {
namespace {

using registry::ResourceName;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The world's registry, for whoever wants to own one.
class Borrowed final : public registry::Registry {
 public:
  explicit Borrowed(registry::Registry& inner) : inner_(inner) {}
  Task<registry::Answer<registry::Written>> create(ResourceName where, Json object,
                                                   registry::WriteOptions options) override {
    return inner_.create(std::move(where), std::move(object), std::move(options));
  }
  Task<registry::Answer<registry::Item>> get(ResourceName what, std::string version) override {
    return inner_.get(std::move(what), std::move(version));
  }
  Task<registry::Answer<registry::Listed>> list(ResourceName what, registry::ListOptions options) override {
    return inner_.list(std::move(what), std::move(options));
  }
  Task<registry::Answer<std::unique_ptr<registry::Watcher>>> watch(ResourceName what,
                                                                   registry::WatchOptions options) override {
    return inner_.watch(std::move(what), std::move(options));
  }
  Task<registry::Answer<registry::Written>> update(ResourceName what, Json object,
                                                   registry::WriteOptions options) override {
    return inner_.update(std::move(what), std::move(object), std::move(options));
  }
  Task<registry::Answer<registry::Written>> patch(ResourceName what, registry::PatchType type, Json patch,
                                                  registry::WriteOptions options) override {
    return inner_.patch(std::move(what), type, std::move(patch), std::move(options));
  }
  Task<registry::Answer<registry::Deleted>> remove(ResourceName what,
                                                   registry::DeleteOptions options) override {
    return inner_.remove(std::move(what), std::move(options));
  }
  Task<registry::Answer<registry::Listed>> remove_collection(ResourceName what, registry::ListOptions which,
                                                             registry::DeleteOptions options) override {
    return inner_.remove_collection(std::move(what), std::move(which), std::move(options));
  }

 private:
  registry::Registry& inner_;
};

class Moor : public registry::World {
 protected:
  Moor() {
    std::string name = (std::filesystem::temp_directory_path() / "moor-cli-XXXXXX").string();
    directory_ = mkdtemp(name.data());
    std::ofstream(directory_ / "kubeconfig")
        << "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]\n"
           "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n";
  }
  ~Moor() override { std::filesystem::remove_all(directory_); }

  // moor("volume create v1 --size 1Gi"): the exit code; out_ and err_ are what it printed.
  int moor(const std::string& line) {
    std::vector<std::string> words;
    for (std::size_t begin = 0; begin < line.size();) {
      const std::size_t end = std::min(line.find(' ', begin), line.size());
      words.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    return moor(words);
  }
  int moor(const std::vector<std::string>& words) {
    out_.clear();
    err_.clear();
    Surroundings around{executor_,
                        {[this](std::string_view text) { out_ += text; },
                         [this](std::string_view text) { err_ += text; }, colours_, colours_},
                        [this](const char* name) -> std::optional<std::string> {
                          if (std::string_view(name) == "MOOR_KUBECONFIG")
                            return (directory_ / "kubeconfig").string();
                          return std::nullopt;
                        },
                        [this](const ClusterAccess&) -> Result<std::unique_ptr<registry::Registry>> {
                          return std::unique_ptr<registry::Registry>(new Borrowed(registry_));
                        }};
    return run(words, around);
  }

  void make_volume(const std::string& name) {
    ASSERT_TRUE(create(at("volumes.longhorn.io"),
                       fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"size":"4096"}}}})", name))
                    .ok());
  }
  void make_node(const std::string& name) {
    ASSERT_TRUE(
        create(at("nodes.longhorn.io"), fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{}}}})", name))
            .ok());
  }
  void make_book(const std::string& name, const std::string& tickets = "{}") {
    const auto made = create(
        at("volumeattachments.longhorn.io"),
        fmt::format(R"({{"metadata":{{"name":"{0}"}},"spec":{{"volume":"{0}","attachmentTickets":{1}}}}})",
                    name, tickets));
    ASSERT_TRUE(made.ok()) << registry::refusal_text(made);
  }
  void set_status(const std::string& resource, const std::string& name, const std::string& status) {
    const auto set = merge(at(resource, name, "status"), "{\"status\":" + status + "}");
    ASSERT_TRUE(set.ok()) << registry::refusal_text(set);
  }
  Json ticket(const std::string& volume, const std::string& id) {
    const auto book = get(at("volumeattachments.longhorn.io", volume));
    const Json* found = book ? book->find_path({"spec", "attachmentTickets", id}) : nullptr;
    return found == nullptr ? Json() : *found;
  }

  std::filesystem::path directory_;
  std::string out_;
  std::string err_;
  bool colours_ = false;
};

TEST_F(Moor, CreatesTheVolumeThatWasAskedFor) {
  EXPECT_EQ(moor("volume create v1 --size 1Gi --replicas 2 --access-mode rwx --migratable"), 0) << err_;
  EXPECT_EQ(out_, "volume v1 created\n");
  const auto volume = get(at("volumes.longhorn.io", "v1"));
  ASSERT_TRUE(volume.ok());
  const Json& spec = *volume->find("spec");
  EXPECT_EQ(spec.get_string("size"), "1073741824");
  EXPECT_EQ(spec.get_int64("numberOfReplicas"), 2);
  EXPECT_EQ(spec.get_string("accessMode"), "rwx");
  EXPECT_EQ(spec.get_bool("migratable"), true);
}

TEST_F(Moor, AWrongLineChangesNothingAndSaysWhy) {
  struct Case {
    const char* line;
    const char* says;
  };
  const Case cases[] = {
      {"volume create v1 --size 1000", "whole blocks of 4 KiB"},
      {"volume create v1 --size 0", "whole blocks of 4 KiB"},
      {"volume create v1 --size 1GB", "is no size"},
      {"volume create v1 --size -1Gi", "is no size"},
      {"volume create v1", "--size"},
      {"volume create v1 --size 1Gi --replicas 0", "1 to 20 replicas"},
      {"volume create v1 --size 1Gi --replicas three", "three"},
      {"volume create v1 --size 1Gi --access-mode rw", "rwo, rwop or rwx"},
      {"volume create v1 --size 1Gi --migratable", "--access-mode rwx"},
      {"volume create V_1 --size 1Gi", "V_1"},
      {"volume create v1 --size 1Gi --wait --timeout 5", "is no duration"},
      {"volume create v1 --size 1Gi -o xml", "is no output format"},
      {"volume", "subcommand"},
      {"attach v1", "--node"},
  };
  const auto before = revision();
  for (const Case& one : cases) {
    EXPECT_EQ(moor(one.line), 2) << one.line;
    EXPECT_THAT(err_, HasSubstr(one.says)) << one.line;
    EXPECT_EQ(out_, "") << one.line;
  }
  EXPECT_EQ(revision(), before);
}

TEST_F(Moor, ANameThatIsTakenIsAConflict) {
  make_volume("v1");
  EXPECT_EQ(moor("volume create v1 --size 1Gi"), 5);
  EXPECT_THAT(err_, HasSubstr("there is a volume 'v1' already"));
}

TEST_F(Moor, AMisspeltNameGetsTheOneThatWasMeant) {
  make_volume("database");
  EXPECT_EQ(moor("volume show databse"), 3);
  EXPECT_THAT(err_, HasSubstr("did you mean 'database'?"));
  EXPECT_EQ(moor("volume show zebra"), 3);
  EXPECT_THAT(err_, Not(HasSubstr("did you mean")));
  EXPECT_EQ(moor("replicas databse"), 3);
  EXPECT_EQ(moor("tickets databse"), 3);
}

TEST_F(Moor, ListsComeInTheFormThatWasAskedFor) {
  make_volume("v1");
  make_volume("v2");
  set_status("volumes.longhorn.io", "v2",
             R"({"state":"attached","robustness":"healthy","currentNodeID":"node-1"})");
  EXPECT_EQ(moor("volume list"), 0);
  EXPECT_THAT(out_, HasSubstr("NAME  STATE     ROBUSTNESS  SIZE  REPLICAS  NODE"));
  EXPECT_THAT(out_, HasSubstr("v2    attached  healthy     4Ki"));
  EXPECT_THAT(out_, Not(HasSubstr("EPOCH")));
  EXPECT_EQ(moor("volume list -o wide"), 0);
  EXPECT_THAT(out_, HasSubstr("EPOCH"));
  EXPECT_EQ(moor("volume list -o name"), 0);
  EXPECT_EQ(out_, "volume/v1\nvolume/v2\n");
  EXPECT_EQ(moor("-o json volume list"), 0);
  const auto list = parse_json(out_);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->find("items")->size(), 2u);
  EXPECT_EQ(list->find("items")->at(0).find("metadata")->find("managedFields"), nullptr);
  EXPECT_EQ(moor("volume show v2 -o yaml"), 0);
  EXPECT_THAT(out_, HasSubstr("  currentNodeID: node-1\n"));
}

TEST_F(Moor, ColoursAreForTerminals) {
  make_volume("v1");
  set_status("volumes.longhorn.io", "v1", R"({"state":"attached","robustness":"degraded"})");
  EXPECT_EQ(moor("volume list"), 0);
  EXPECT_THAT(out_, Not(HasSubstr("\033")));
  colours_ = true;
  EXPECT_EQ(moor("volume list"), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("\033[32mattached"), HasSubstr("\033[33mdegraded")));
  EXPECT_EQ(moor("volume list -o json"), 0);
  EXPECT_THAT(out_, Not(HasSubstr("\033")));
}

TEST_F(Moor, AttachWritesOneTicketPerNodeHoweverOftenItIsAsked) {
  make_volume("v1");
  make_book("v1");
  make_node("node-1");
  EXPECT_EQ(moor("attach v1 --node node-1"), 0) << err_;
  EXPECT_EQ(moor("attach v1 --node node-1 --disable-frontend"), 0) << err_;
  const Json written = ticket("v1", "moor-node-1");
  EXPECT_EQ(written.get_string("nodeID"), "node-1");
  EXPECT_EQ(written.get_string("type"), "longhorn-api");
  EXPECT_EQ(written.find_path({"parameters", "disableFrontend"})->as_string(), "true");
  EXPECT_EQ(get(at("volumeattachments.longhorn.io", "v1"))->find_path({"spec", "attachmentTickets"})->size(),
            1u);
}

TEST_F(Moor, AttachTakesATicketIdAndAnEnd) {
  make_volume("v1");
  make_book("v1");
  make_node("node-1");
  EXPECT_EQ(moor("attach v1 --node node-1 --ticket mine --expires 1h"), 0) << err_;
  const auto expires = model::parse_rfc3339(*ticket("v1", "mine").get_string("expiresAt"));
  ASSERT_TRUE(expires.has_value());
  const auto left = *expires - model::Time(executor_.clock().wall().since_epoch);
  EXPECT_LE(left, std::chrono::hours(1));
  EXPECT_GT(left, std::chrono::minutes(59));
  EXPECT_EQ(moor("attach v1 --node node-1 --expires 0s"), 2);
}

TEST_F(Moor, AttachRefusesWhatCouldOnlyWaitForEver) {
  make_volume("v1");
  make_book("v1");
  make_node("node-1");
  EXPECT_EQ(moor("attach v1 --node node-7"), 3);
  EXPECT_THAT(err_, AllOf(HasSubstr("no node 'node-7'"), HasSubstr("did you mean 'node-1'?")));
  EXPECT_EQ(moor("attach v9 --node node-1"), 3);
  EXPECT_TRUE(ticket("v1", "moor-node-7").is_null());
}

TEST_F(Moor, MigrateRefusesWhatIsNoMoveAndSaysWhatToDo) {
  make_volume("v1");
  make_book("v1");
  make_node("node-1");
  make_node("node-2");
  EXPECT_EQ(moor("migrate v1"), 2);
  EXPECT_THAT(err_, HasSubstr("--to"));
  EXPECT_EQ(moor("migrate v1 --confirm --rollback"), 2);
  EXPECT_EQ(moor("migrate v1 --confirm"), 5);
  EXPECT_THAT(err_, AllOf(HasSubstr("not moving"), HasSubstr("moor migrate v1 --to NODE")));
  EXPECT_EQ(moor("migrate v1 --to node-2"), 5);
  EXPECT_THAT(err_,
              AllOf(HasSubstr("only an attached volume moves"), HasSubstr("moor attach v1 --node node-2")));
  set_status("volumes.longhorn.io", "v1", R"({"state":"attached","currentNodeID":"node-1"})");
  EXPECT_EQ(moor("migrate v1 --to node-1"), 5);
  EXPECT_THAT(err_, HasSubstr("on node-1 already"));
  EXPECT_EQ(moor("migrate v1 --to node-2"), 5);
  EXPECT_THAT(err_, AllOf(HasSubstr("not migratable"), HasSubstr("--migratable")));
  EXPECT_TRUE(ticket("v1", "moor-node-2").is_null());
}

TEST_F(Moor, AttachWithoutABookSaysWhoShouldHaveMadeIt) {
  make_volume("v1");
  make_node("node-1");
  EXPECT_EQ(moor("attach v1 --node node-1"), 4);
  EXPECT_THAT(err_, HasSubstr("volume controller"));
}

TEST_F(Moor, WaitingEndsWhenTheTicketIsSatisfied) {
  make_volume("v1");
  make_book("v1");
  make_node("node-1");
  set_status("volumeattachments.longhorn.io", "v1",
             R"({"attachmentTicketStatuses":{"moor-node-1":{"id":"moor-node-1","satisfied":true}}})");
  set_status("volumes.longhorn.io", "v1",
             R"({"state":"attached","robustness":"healthy","currentNodeID":"node-1"})");
  ASSERT_TRUE(
      create(at("engines.longhorn.io"),
             R"({"metadata":{"name":"v1-e","labels":{"longhornvolume":"v1"}},"spec":{"volumeName":"v1"}})")
          .ok());
  set_status(
      "engines.longhorn.io", "v1-e",
      R"({"currentState":"running","endpoint":"/dev/mooring/v1","nbdURI":"nbd+unix:///v1?socket=/s"})");
  EXPECT_EQ(moor("attach v1 --node node-1 --wait"), 0) << err_;
  EXPECT_EQ(out_, "v1 attached to node-1, device /dev/mooring/v1\n");
  EXPECT_THAT(err_, HasSubstr("v1  attached to node-1, healthy"));
  EXPECT_EQ(moor("volume device v1"), 0);
  EXPECT_EQ(out_, "/dev/mooring/v1\nnbd+unix:///v1?socket=/s\n");
  EXPECT_EQ(moor("volume device v1 -o name"), 0);
  EXPECT_EQ(out_, "/dev/mooring/v1\n");
  EXPECT_EQ(moor("volume device v1 -o json"), 0);
  EXPECT_EQ(parse_json(out_)->get_string("device"), "/dev/mooring/v1");
  EXPECT_EQ(parse_json(out_)->get_string("nbd"), "nbd+unix:///v1?socket=/s");
}

TEST_F(Moor, WaitingThatIsOverTellsWhatStandsInTheWay) {
  make_volume("v1");
  make_book("v1", R"({"a":{"id":"a","type":"longhorn-api","nodeID":"node-1"}})");
  make_node("node-2");
  set_status("volumeattachments.longhorn.io", "v1",
             R"({"attachmentTicketStatuses":{"moor-node-2":{"id":"moor-node-2","satisfied":false,"blockers":[
               {"type":"AttachedElsewhere","message":"v1 is attached to node-1","holder":"a","nodeID":"node-1"}]}}})");
  EXPECT_EQ(moor("attach v1 --node node-2 --wait --timeout 30s"), 4);
  EXPECT_THAT(
      err_, AllOf(HasSubstr("waits for AttachedElsewhere: v1 is attached to node-1"),
                  HasSubstr("waited 30 s for v1 to be attached to node-2"), HasSubstr("moor why volume v1")));
  EXPECT_FALSE(ticket("v1", "moor-node-2").is_null());
}

TEST_F(Moor, DetachTakesBackWhatPeopleAskedForAndNothingElse) {
  make_volume("v1");
  make_book("v1", R"({"moor-node-1":{"id":"moor-node-1","type":"longhorn-api","nodeID":"node-1"},
    "moor-node-2":{"id":"moor-node-2","type":"longhorn-api","nodeID":"node-2"},
    "csi-1":{"id":"csi-1","type":"csi-attacher","nodeID":"node-1"}})");
  EXPECT_EQ(moor("detach v1 --node node-2"), 0) << err_;
  EXPECT_TRUE(ticket("v1", "moor-node-2").is_null());
  EXPECT_FALSE(ticket("v1", "moor-node-1").is_null());
  EXPECT_EQ(moor("detach v1"), 0) << err_;
  EXPECT_TRUE(ticket("v1", "moor-node-1").is_null());
  EXPECT_FALSE(ticket("v1", "csi-1").is_null());
  EXPECT_EQ(moor("detach v1"), 3);
  EXPECT_THAT(err_, HasSubstr("csi-1 (csi-attacher on node-1)"));
  EXPECT_EQ(moor("detach v1 --ticket csi-2"), 3);
  EXPECT_EQ(moor("detach v1 --ticket csi-1"), 0) << err_;
  EXPECT_TRUE(ticket("v1", "csi-1").is_null());
  EXPECT_EQ(moor("detach v1"), 0);
  EXPECT_THAT(out_, HasSubstr("nothing to detach"));
}

TEST_F(Moor, DetachDoesNotWaitForAVolumeThatSomeoneElseKeepsThere) {
  make_volume("v1");
  make_book("v1", R"({"moor-node-1":{"id":"moor-node-1","type":"longhorn-api","nodeID":"node-1"},
    "csi-1":{"id":"csi-1","type":"csi-attacher","nodeID":"node-1"}})");
  set_status("volumes.longhorn.io", "v1", R"({"state":"attached","currentNodeID":"node-1"})");
  EXPECT_EQ(moor("detach v1 --wait"), 5);
  EXPECT_THAT(err_, HasSubstr("ticket csi-1 (csi-attacher) keeps it on node-1"));
}

TEST_F(Moor, DeleteSparesAVolumeThatIsWantedSomewhere) {
  make_volume("v1");
  make_book("v1", R"({"csi-1":{"id":"csi-1","type":"csi-attacher","nodeID":"node-1"}})");
  EXPECT_EQ(moor("volume delete v1"), 5);
  EXPECT_THAT(err_, HasSubstr("moor detach v1 --ticket csi-1"));
  EXPECT_TRUE(get(at("volumes.longhorn.io", "v1")).ok());
  EXPECT_EQ(moor("volume delete v1 --force --wait"), 0) << err_;
  EXPECT_EQ(out_, "volume v1 deleted\n");
  EXPECT_FALSE(get(at("volumes.longhorn.io", "v1")).ok());
}

TEST_F(Moor, WhyShowsBlockersAsTheyWereWritten) {
  make_volume("v1");
  make_book("v1", R"({"a":{"id":"a","type":"longhorn-api","nodeID":"node-1"},
                      "b":{"id":"b","type":"csi-attacher","nodeID":"node-2"}})");
  set_status("volumeattachments.longhorn.io", "v1",
             R"({"attachmentTicketStatuses":{"a":{"id":"a","satisfied":true},
               "b":{"id":"b","satisfied":false,"blockers":[{"type":"AttachedElsewhere","message":"it is on node-1",
               "holder":"a","holderType":"longhorn-api","nodeID":"node-1","clearedBy":"detaching ticket a"}]}}})");
  EXPECT_EQ(moor("why volume v1"), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("b"), HasSubstr("AttachedElsewhere"), HasSubstr("it is on node-1"),
                          HasSubstr("detaching ticket a")));
  EXPECT_EQ(moor("why volume v1 -o json"), 0);
  const auto reasons = parse_json(out_);
  ASSERT_TRUE(reasons.ok());
  ASSERT_GE(reasons->size(), 1u);
  EXPECT_EQ(reasons->at(0).get_string("ticket"), "b");
  EXPECT_EQ(reasons->at(0).get_string("holder"), "a");
  EXPECT_EQ(moor("why ticket b"), 0);
  EXPECT_THAT(out_, HasSubstr("AttachedElsewhere"));
  EXPECT_EQ(moor("why ticket a"), 0);
  EXPECT_THAT(out_, HasSubstr("has what it asks for"));
  EXPECT_EQ(moor("why ticket c"), 3);
}

TEST_F(Moor, WhyNamesTheReplicaThatMissedWrites) {
  make_volume("v1");
  make_book("v1");
  const ResourceName grants{&kind("grants.mooring.io"), "longhorn-system", "", ""};
  const auto made =
      create(grants, R"({"metadata":{"name":"v1"},"spec":{"volume":"v1","epoch":3,"generation":4,
                                       "members":{"v1-r-1":"RW","v1-r-2":"ERR"}}})");
  ASSERT_TRUE(made.ok()) << registry::refusal_text(made);
  set_status("volumes.longhorn.io", "v1",
             R"({"state":"attached","robustness":"degraded","currentNodeID":"node-1"})");
  EXPECT_EQ(moor("why volume v1"), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("v1-r-2"), HasSubstr("ERR"), Not(HasSubstr("v1-r-1"))));
}

TEST_F(Moor, CompletionOffersCommandsOptionsAndNames) {
  make_volume("v1");
  make_volume("web");
  make_node("node-1");
  const auto completed = [this](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"__complete"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(moor(all), 0);
    return out_;
  };
  EXPECT_EQ(completed({"vol"}), "volume\n");
  EXPECT_EQ(completed({"volume", "d"}), "delete\ndevice\n");
  EXPECT_EQ(completed({"volume", "show", ""}), "v1\nweb\n");
  EXPECT_EQ(completed({"attach", "v1", "--node", ""}), "node-1\n");
  EXPECT_EQ(completed({"attach", "v1", "--no"}), "--node\n");
  EXPECT_EQ(completed({"volume", "list", "-o", "j"}), "json\n");
  EXPECT_EQ(completed({"volume", "create", ""}), "");
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_EQ(moor(std::string("completion ") + shell), 0);
    EXPECT_THAT(out_, HasSubstr("moor __complete"));
  }
  EXPECT_EQ(moor("completion tcsh"), 2);
}

TEST_F(Moor, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"", "volume ", "volume create ", "volume list ", "volume show ",
                              "volume delete ", "volume device ", "attach ", "detach ", "tickets ", "nodes ",
                              "replicas ", "engines ", "why ", "why volume ", "why ticket ", "completion "}) {
    EXPECT_EQ(moor(std::string(command) + "--help"), 0);
    EXPECT_THAT(out_, AllOf(HasSubstr("Examples:"), HasSubstr("  moor "))) << command;
  }
  EXPECT_EQ(moor("--help"), 0);
  EXPECT_THAT(out_, HasSubstr("Exit codes: 0 done"));
}

// The engine that a confirmed move leaves behind calls itself active until it is gone.
TEST(Objects, TheEngineInUseIsNeitherTheStandbyNorTheOneThatGoes) {
  model::longhorn::Engine source;
  source.metadata.name = "v-e";
  source.spec.active = true;
  model::longhorn::Engine destination;
  destination.metadata.name = "v-e-b";
  EXPECT_EQ(choose_engine({source, destination})->metadata.name, "v-e");
  destination.spec.active = true;
  source.metadata.deletion_timestamp = model::Time();
  EXPECT_EQ(choose_engine({source, destination})->metadata.name, "v-e-b");
  EXPECT_EQ(choose_engine({destination, source})->metadata.name, "v-e-b");
  EXPECT_EQ(choose_engine({source})->metadata.name, "v-e");
  EXPECT_FALSE(choose_engine({}).has_value());
}

}  // namespace
}  // namespace moor::cli
