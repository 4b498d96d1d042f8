// Answers: objects, lists and watch events as text, in the form that the client asked for. Pure but for
// EventTexts, which remembers what it rendered last.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "doors/kube/form.h"
#include "http/message.h"
#include "registry/registry.h"

namespace moor::doors::kube {

struct Rendering {
  const model::KindInfo* kind = nullptr;
  FormWanted form;
  WallTime now;
};

http::Response render_object(int code, const Rendering& rendering, const Json& object);
void add_warnings(http::Response& response, const std::vector<std::string>& warnings);
http::Response render_item(int code, const Rendering& rendering, const registry::Item& item);
http::Response render_list(const Rendering& rendering, const registry::Listed& listed);

// The text of objects that many watches send at once: rendered for the first, shared with the others. Bounded
// by kMaxTexts objects; one thread.
class EventTexts {
 public:
  static constexpr std::size_t kMaxTexts = 256;
  http::SharedText text_of(const registry::Item& object);

 private:
  struct Kept {
    registry::Item object;  // holds the address that the map finds it by
    http::SharedText text;
  };
  // An object that is gone is sent with its last text at a later revision.
  using Key = std::pair<const void*, store::Revision>;
  std::map<Key, Kept> kept_;
  std::deque<Key> order_;
};

// The line that ends a watch which cannot go on.
std::string error_line(const Json& status);

// Turns events into lines, for one watch.
class EventRenderer {
 public:
  EventRenderer(Rendering rendering, EventTexts& texts) : rendering_(rendering), texts_(texts) {}
  // Appends the parts of one line.
  void add(const registry::WatchEvent& event, WallTime now, std::vector<http::SharedText>& parts);

 private:
  Json bookmark(const registry::WatchEvent& event) const;
  http::SharedText object_text(const registry::WatchEvent& event, WallTime now);

  Rendering rendering_;
  EventTexts& texts_;
  bool sent_definitions_ = false;
};

}  // namespace moor::doors::kube
