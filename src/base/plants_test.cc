#include "base/plants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

namespace moor::plant {
namespace {

// name → the files that have it, once for each time.
std::map<std::string, std::vector<std::string>> sites_in_sources() {
  std::map<std::string, std::vector<std::string>> sites;
  const std::filesystem::path root(MOOR_SOURCES);
  const std::regex use(R"re(MOOR_PLANT\("([a-z0-9-]+)"\))re");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension();
    if (extension != ".cc" && extension != ".h") continue;
    if (entry.path().filename() == "plant.h" || entry.path().filename() == "plants_test.cc") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string body = text.str();
    for (std::sregex_iterator at(body.begin(), body.end(), use), end; at != end; ++at)
      sites[(*at)[1]].push_back(std::filesystem::relative(entry.path(), root));
  }
  return sites;
}

// Most stand once. One that a second guard would hide stands at both, and names both.
TEST(Plants, EachOneOfTheListStandsInTheFilesThatItNames) {
  const auto sites = sites_in_sources();
  for (const Plant& one : all()) {
    const auto found = sites.find(std::string(one.name));
    ASSERT_NE(found, sites.end()) << one.name << " is in the list and nowhere in the sources";
    const auto commas = std::count(one.site.begin(), one.site.end(), ',');
    EXPECT_EQ(found->second.size(), static_cast<std::size_t>(commas) + 1) << one.name;
    for (const std::string& file : found->second)
      EXPECT_NE((" " + std::string(one.site)).find(" " + file + " "), std::string::npos)
          << one.name << " is in " << file << ", the list says " << one.site;
  }
}

TEST(Plants, NoneStandsInTheSourcesThatTheListDoesNotHave) {
  for (const auto& [name, files] : sites_in_sources())
    EXPECT_NE(find(name), nullptr) << name << " in " << files.front();
}

TEST(Plants, ThereAreEnoughAndEachSaysWhatIsWrongAndWhoShouldNotice) {
  EXPECT_GE(all().size(), 45u);
  std::map<std::string_view, int> names;
  for (const Plant& one : all()) {
    EXPECT_EQ(++names[one.name], 1) << one.name;
    EXPECT_TRUE(one.mistake.ends_with(".")) << one.name;
    EXPECT_FALSE(one.caught.empty()) << one.name;
  }
}

TEST(Plants, AnUnknownNameIsRefusedAndABuildWithoutThemSaysSo) {
  EXPECT_EQ(select("no-such-mistake").code(), Errc::not_found);
  EXPECT_TRUE(select("").ok());
  const auto selected = select(all().front().name);
  EXPECT_EQ(selected.ok(), is_planted_build());
  if (!selected) {
    EXPECT_EQ(selected.code(), Errc::unsupported);
  }
  EXPECT_TRUE(select("").ok());
}

}  // namespace
}  // namespace moor::plant
