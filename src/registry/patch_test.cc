#include "registry/patch.h"

#include "model/kinds.h"

namespace moor::registry {
namespace {

Json json(std::string_view text) {
  auto parsed = parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : Json();
}

struct Example {
  const char* document;
  const char* patch;
  const char* result;  // nullptr: refused
};

TEST(JsonPatch, FollowsRfc6902) {
  // The examples of the RFC's appendix A, and the edges around them.
  const Example examples[] = {
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux"}])", R"({"foo":"bar","baz":"qux"})"},
      {R"({"foo":["bar","baz"]})", R"([{"op":"add","path":"/foo/1","value":"qux"}])",
       R"({"foo":["bar","qux","baz"]})"},
      {R"({"baz":"qux","foo":"bar"})", R"([{"op":"remove","path":"/baz"}])", R"({"foo":"bar"})"},
      {R"({"foo":["bar","qux","baz"]})", R"([{"op":"remove","path":"/foo/1"}])", R"({"foo":["bar","baz"]})"},
      {R"({"baz":"qux"})", R"([{"op":"replace","path":"/baz","value":"boo"}])", R"({"baz":"boo"})"},
      {R"({"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}})",
       R"([{"op":"move","from":"/foo/waldo","path":"/qux/thud"}])",
       R"({"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}})"},
      {R"({"foo":["all","grass","cows","eat"]})", R"([{"op":"move","from":"/foo/1","path":"/foo/3"}])",
       R"({"foo":["all","cows","eat","grass"]})"},
      {R"({"baz":"qux"})", R"([{"op":"test","path":"/baz","value":"bar"}])", nullptr},
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/child","value":{"grandchild":{}}}])",
       R"({"foo":"bar","child":{"grandchild":{}}})"},
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux","xyz":123}])",
       R"({"foo":"bar","baz":"qux"})"},
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz/bat","value":"qux"}])", nullptr},
      {R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":10}])", R"({"/":9,"~1":10})"},
      {R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":"10"}])", nullptr},
      {R"({"foo":["bar"]})", R"([{"op":"add","path":"/foo/-","value":["abc","def"]}])",
       R"({"foo":["bar",["abc","def"]]})"},
      {R"({"a":1})", R"([{"op":"copy","from":"/a","path":"/b"}])", R"({"a":1,"b":1})"},
      {R"({"a":1})", R"([{"op":"replace","path":"","value":{"b":2}}])", R"({"b":2})"},
      {R"({"a":1})", R"([{"op":"replace","path":"/b","value":2}])", nullptr},
      {R"({"a":{"b":1}})", R"([{"op":"move","from":"/a","path":"/a/b"}])", nullptr},
      {R"({"a":[1]})", R"([{"op":"add","path":"/a/2","value":2}])", nullptr},
      {R"({"a":[1]})", R"([{"op":"add","path":"/a/01","value":2}])", nullptr},
      {R"({"a":1})", R"([{"op":"remove","path":""}])", nullptr},
      {R"({"a":1})", R"([{"op":"jump","path":"/a"}])", nullptr},
      {R"({"a":1})", R"([{"op":"add","path":"a","value":1}])", nullptr},
      {R"({"a":1})", R"([{"op":"add","path":"/a~2","value":1}])", nullptr},
      {R"({"a":1})", R"({"op":"add"})", nullptr},
      {R"({"a":1})", R"([1])", nullptr},
  };
  for (const Example& example : examples) {
    SCOPED_TRACE(example.patch);
    const auto result = json_patch(json(example.document), json(example.patch));
    if (example.result == nullptr) {
      EXPECT_TRUE(result.is(Errc::invalid));
    } else {
      ASSERT_TRUE(result.ok()) << result.error().message;
      EXPECT_EQ(to_text(*result), example.result);
    }
  }
}

TEST(JsonPatch, BoundsHowMuchItCopies) {
  Json patch = Json::array();
  // Each copy holds all those before it: the size doubles with every step.
  for (int i = 0; i < 40; ++i)
    patch.push_back(Json::object({{"op", "copy"}, {"from", "/a"}, {"path", "/a/x" + std::to_string(i)}}));
  EXPECT_TRUE(json_patch(json(R"({"a":{"text":"0123456789012345678901234567890123456789"}})"), patch)
                  .is(Errc::invalid));
}

TEST(MergePatch, FollowsRfc7386) {
  const Example examples[] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", R"({})"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
      {R"({"a":"foo"})", R"("bar")", R"("bar")"},
      {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
      {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
      {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
  };
  for (const Example& example : examples)
    EXPECT_EQ(to_text(merge_patch(json(example.document), json(example.patch))), example.result)
        << example.patch;
}

TEST(StrategicPatch, MergesListsByTheirKeyAndHeedsDirectives) {
  const auto& pod = *model::find_kind("", "v1", "pods")->schema;
  const Example examples[] = {
      {R"({"spec":{"containers":[{"name":"a","image":"1"},{"name":"b"}]}})",
       R"({"spec":{"containers":[{"name":"a","image":"2"}]}})",
       R"({"spec":{"containers":[{"name":"a","image":"2"},{"name":"b"}]}})"},
      {R"({"spec":{"containers":[{"name":"a"}]}})", R"({"spec":{"containers":[{"name":"b"}]}})",
       R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})"},
      {R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})",
       R"({"spec":{"containers":[{"name":"a","$patch":"delete"}]}})",
       R"({"spec":{"containers":[{"name":"b"}]}})"},
      {R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})",
       R"({"spec":{"containers":[{"name":"c"},{"$patch":"replace"}]}})",
       R"({"spec":{"containers":[{"name":"c"}]}})"},
      {R"({"metadata":{"labels":{"a":"1","b":"2"}}})", R"({"metadata":{"labels":{"a":null,"c":"3"}}})",
       R"({"metadata":{"labels":{"b":"2","c":"3"}}})"},
      {R"({"metadata":{"labels":{"a":"1"}}})", R"({"metadata":{"labels":{"b":"2","$patch":"replace"}}})",
       R"({"metadata":{"labels":{"b":"2"}}})"},
      {R"({"metadata":{"finalizers":["x"]}})", R"({"metadata":{"finalizers":["y","x"]}})",
       R"({"metadata":{"finalizers":["x","y"]}})"},
      {R"({"metadata":{"finalizers":["x","y"]}})",
       R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}})",
       R"({"metadata":{"finalizers":["y"]}})"},
      {R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})",
       R"({"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a","image":"1"}]}})",
       R"({"spec":{"containers":[{"name":"b"},{"name":"a","image":"1"}]}})"},
      {R"({"spec":{"volumes":[{"name":"v","emptyDir":{}}]}})",
       R"({"spec":{"volumes":[{"name":"v","$retainKeys":["name","persistentVolumeClaim"],"persistentVolumeClaim":{"claimName":"c"}}]}})",
       R"({"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}})"},
      {R"({"spec":{"containers":[{"name":"a"}]}})", R"({"spec":{"containers":[{"image":"1"}]}})", nullptr},
      {R"({"spec":{}})", R"({"spec":{"$patch":"explode"}})", nullptr},
      {R"({"spec":{}})", R"([])", nullptr},
  };
  for (const Example& example : examples) {
    SCOPED_TRACE(example.patch);
    const auto result = strategic_merge_patch(json(example.document), json(example.patch), pod);
    if (example.result == nullptr) {
      EXPECT_TRUE(result.is(Errc::invalid));
    } else {
      ASSERT_TRUE(result.ok()) << result.error().message;
      EXPECT_EQ(to_text(*result), example.result);
    }
  }
}

}  // namespace
}  // namespace moor::registry
