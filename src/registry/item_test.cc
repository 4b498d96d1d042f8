// What is sent without decoding must be what decoding would have sent.
#include "registry/item.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/kinds.h"
#include "registry/keys.h"
#include "registry/projection.h"
#include "registry/selection.h"

namespace moor::registry {
namespace {

const model::KindInfo& snapshots() {
  return *model::find_kind("longhorn.io", "v1beta2", "snapshots");
}

store::ObjectPtr cached(std::string text, store::Revision revision = 42, std::string_view name = "a") {
  auto object = std::make_shared<store::CachedObject>();
  object->entry.key = key_of(snapshots(), "longhorn-system", name);
  object->entry.value = std::make_shared<const std::string>(std::move(text));
  object->entry.revision = revision;
  (void)project(*object);
  std::sort(object->terms.begin(), object->terms.end());
  return object;
}

std::string text_of(const Item& item) {
  std::string text;
  item.append_text(text);
  return text;
}

// The garbage collector passes over changes between versions that live alike.
TEST(Lives, AreAlikeWhileUidOwnersFinalizersAndDeletionStay) {
  const auto with = [](const std::string& metadata, const std::string& status = "{}") {
    return cached(R"({"metadata":{"name":"a","uid":"u1")" + metadata + R"(},"status":)" + status + "}");
  };
  const auto owned = [&](const char* name, const char* blocks) {
    return with(fmt::format(R"(,"ownerReferences":[{{"kind":"Volume","name":"{}","uid":"o1",)"
                            R"("blockOwnerDeletion":{}}}])",
                            name, blocks));
  };
  const auto plain = with("");
  EXPECT_TRUE(lives_alike(*plain, *with(R"(,"labels":{"x":"y"})", R"({"readyToUse":true})")));
  EXPECT_TRUE(lives_alike(*owned("v", "true"), *owned("v", "true")));
  EXPECT_FALSE(lives_alike(*owned("v", "true"), *owned("v", "false")));
  EXPECT_FALSE(lives_alike(*owned("v", "true"), *owned("w", "true")));
  for (const char* more : {R"(,"finalizers":["f"])", R"(,"deletionTimestamp":"2026-01-01T00:00:00Z")",
                           R"(,"ownerReferences":[{"uid":"o1"}])"})
    EXPECT_FALSE(lives_alike(*plain, *with(more))) << more;
  EXPECT_FALSE(lives_alike(*with(R"(,"finalizers":["f"])"), *with(R"(,"finalizers":["f","g"])")));
  EXPECT_FALSE(lives_alike(*plain, *cached(R"({"metadata":{"name":"a","uid":"u2"}})")));
  const auto damaged = cached("{");
  EXPECT_FALSE(lives_alike(*damaged, *damaged));
}

struct Case {
  const char* text;
  bool spliced;  // sent without decoding
};

class ItemText : public testing::TestWithParam<Case> {};

TEST_P(ItemText, IsTheStoredObjectWithItsVersion) {
  const auto object = cached(GetParam().text);
  ASSERT_TRUE(object->readable);
  EXPECT_EQ(object->mark != 0, GetParam().spliced);
  const auto expected = decode_stored(*object->entry.value, 42);
  std::vector<std::string> duplicates;
  JsonParseOptions options;
  options.duplicates = &duplicates;
  const auto sent = parse_json(text_of(Item(object)), options);
  ASSERT_TRUE(expected.ok() && sent.ok());
  EXPECT_EQ(*sent, *expected);
  EXPECT_THAT(duplicates, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Texts, ItemText,
    testing::Values(
        Case{R"({"kind":"Snapshot","metadata":{"name":"a"},"spec":{"volume":"v"}})", true},
        Case{R"({"spec":{"volume":"v","metadata":{"name":"x"}},"metadata":{"name":"a"}})", true},
        Case{R"({"list":[{"metadata":{"name":"x"}}],"metadata":{"name":"a","labels":{"k":"v"}}})", true},
        Case{R"({"a":"\"metadata\":{\"name\"","metadata":{"name":"a"}})", true},
        Case{R"({"a":"\\","metadata":{"name":"{[\"","x":"}]"}})", true},
        Case{
            R"({"metadata":{"name":"a","annotations":{"resourceVersion":"7"}},"status":{"resourceVersion":"1"}})",
            false},
        Case{R"({"metadata":{"resourceVersion":"7","name":"a"}})", false},
        Case{R"({"metadata":{"name":"a","resourceVersion":"7"}})", false},
        Case{R"({"metadata":{"name":"b"},"metadata":{"name":"a"}})", false},
        Case{R"({"metadata":{}})", false}, Case{R"({ "metadata":{"name":"a"}})", false},
        Case{R"({"metadata": {"name":"a"}})", false}, Case{R"({"met\u0061data":{"name":"a"}})", false}));

TEST(Item, ShowsAGoneObjectAtTheRevisionOfItsRemoval) {
  const auto object = cached(R"({"metadata":{"name":"a"}})");
  const Item gone(object, 50);
  EXPECT_EQ(parse_json(text_of(gone))->find("metadata")->get_string("resourceVersion"), "50");
  EXPECT_EQ(gone->find("metadata")->get_string("resourceVersion"), "50");
  EXPECT_EQ(Item(object)->find("metadata")->get_string("resourceVersion"), "42");
}

TEST(Item, DecodesOnceWhileSomebodyHoldsTheResult) {
  const auto object = cached(R"({"metadata":{"name":"a"}})");
  EXPECT_TRUE(object->decoded.expired());
  const JsonPtr held = object_of(*object);
  EXPECT_EQ(object_of(*object), held);
  EXPECT_EQ(Item(object).json(), held);
}

TEST(Item, DamagedTextIsNoObject) {
  const auto object = cached(R"({"metadata":{"name")");
  EXPECT_FALSE(object->readable);
  EXPECT_EQ(object_of(*object), nullptr);
}

TEST(Selection, SeesTheSameInTheCacheAsInTheObject) {
  const std::pair<const char*, const char*> objects[] = {
      {"a",
       R"({"metadata":{"name":"a","namespace":"longhorn-system","labels":{"app":"db","app2":"x","n":"5"}},)"
       R"("spec":{"volume":"v1"},"status":{"readyToUse":true}})"},
      {"b", R"({"metadata":{"name":"b","namespace":"longhorn-system","labels":{"app":"","ap":"db"}},)"
            R"("spec":{"volume":"v2"}})"},
      {"c", R"({"metadata":{"name":"c","namespace":"longhorn-system"},"spec":{"volume":"v1"}})"}};
  const char* const labels[] = {"",     "app=db",        "app!=db", "app", "!app",        "ap=db",
                                "app=", "app in (db,x)", "n>4",     "n<4", "app2,app=db", "app notin (db)"};
  const char* const fields[] = {"",
                                "metadata.name=a",
                                "metadata.name!=a",
                                "metadata.namespace=longhorn-system",
                                "spec.volume=v1",
                                "spec.volume!=v1",
                                "status.readyToUse=true",
                                "status.readyToUse=",
                                "status.readyToUse!="};
  int matched = 0;
  for (const auto& [name, text] : objects) {
    const auto object = cached(text, 42, name);
    for (const char* label : labels) {
      for (const char* field : fields) {
        const auto selection = Selection::make({&snapshots(), "", "", ""}, *LabelSelector::parse(label),
                                               *FieldSelector::parse(field));
        ASSERT_TRUE(selection.ok());
        const bool in_object = selection->matches(*object_of(*object));
        EXPECT_EQ(selection->matches(*object), in_object) << name << " " << label << " " << field;
        matched += in_object ? 1 : 0;
      }
    }
  }
  EXPECT_GT(matched, 50);
}

}  // namespace
}  // namespace moor::registry
