// Reading objects for commands: typed where commands look inside, with errors that say what to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/context.h"
#include "model/codec.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/node.h"
#include "model/longhorn/replica.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"

namespace moor::cli {

template <class T>
const model::KindInfo& kind_of() {
  return kind_info(static_cast<const T*>(nullptr));
}

template <class T>
registry::ResourceName resource(const Context& context, std::string name = {}) {
  const model::KindInfo& kind = kind_of<T>();
  return {&kind, kind.namespaced ? context.space : std::string(), std::move(name), ""};
}

// The closest of the names, if one is close enough to be a slip of the finger; else "".
std::string closest(std::string_view name, const std::vector<std::string>& names);

Task<Outcome<std::vector<Json>>> list_objects(Context& context, registry::ResourceName what,
                                              registry::ListOptions options);
// Errc not_found becomes a sentence with the name that was probably meant.
Task<Outcome<Json>> get_object(Context& context, registry::ResourceName what);
// Absent when there is none.
Task<Outcome<std::optional<Json>>> find_object(Context& context, registry::ResourceName what);
// Objects labelled with the volume; all of the namespace when `volume` is empty.
registry::ListOptions of_volume(std::string_view volume);

template <class T>
struct Pair {
  Json json;
  T object;
};

template <class T>
Task<Outcome<Pair<T>>> get_typed(Context& context, std::string name) {
  CO_TRY(Json json, co_await get_object(context, resource<T>(context, std::move(name))));
  CO_TRY(T object, model::decode<T>(json));
  co_return Pair<T>{std::move(json), std::move(object)};
}

template <class T>
Task<Outcome<std::optional<T>>> find_typed(Context& context, std::string name) {
  CO_TRY(const std::optional<Json> json,
         co_await find_object(context, resource<T>(context, std::move(name))));
  if (!json) co_return std::optional<T>();
  CO_TRY(T object, model::decode<T>(*json));
  co_return std::optional<T>(std::move(object));
}

template <class T>
Task<Outcome<std::vector<Pair<T>>>> list_typed(Context& context, registry::ListOptions options) {
  CO_TRY(std::vector<Json> items, co_await list_objects(context, resource<T>(context), std::move(options)));
  std::vector<Pair<T>> pairs;
  for (Json& item : items) {
    CO_TRY(T object, model::decode<T>(item));
    pairs.push_back({std::move(item), std::move(object)});
  }
  co_return pairs;
}

template <class T>
std::vector<Json> jsons_of(const std::vector<Pair<T>>& pairs) {
  std::vector<Json> items;
  for (const Pair<T>& pair : pairs) items.push_back(pair.json);
  return items;
}

// The engine that serves the volume, whichever of its two slots it is in; absent: none.
Task<Outcome<std::optional<model::longhorn::Engine>>> engine_in_use(Context& context, std::string volume);
// Of several, the one in use: during a move the standby is not, and after it the one that goes is not.
std::optional<model::longhorn::Engine> choose_engine(std::vector<model::longhorn::Engine> engines);

// "3m2s" since then; "" when the time is not known.
std::string age(const Context& context, const std::optional<model::Time>& since);

}  // namespace moor::cli
