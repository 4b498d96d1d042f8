#include "control/runtime/view.h"

#include "base/log.h"
#include "model/longhorn/group.h"
#include "model/longhorn/setting.h"
#include "registry/keys.h"
#include "registry/prepare.h"

namespace moor::control {

Json own_metadata(const Json& object) {
  Json own = Json::object();
  const Json* metadata = object.find("metadata");
  for (std::size_t i = 0; metadata != nullptr && i < metadata->size(); ++i)
    if (metadata->key_at(i) != "managedFields") own.set(metadata->key_at(i), metadata->value_at(i));
  return own;
}

Json name_and_version(const Json& object) {
  Json metadata = Json::object();
  for (const std::string_view field : {"name", "namespace", "uid", "resourceVersion"})
    if (std::string text = registry::metadata_text(object, field); !text.empty()) metadata.set(field, text);
  return Json::object({{"metadata", std::move(metadata)}});
}

Json without_managed_fields(const Json& object) {
  Json rest = Json::object();
  for (std::size_t i = 0; i < object.size(); ++i) {
    if (object.key_at(i) == "metadata")
      rest.set("metadata", own_metadata(object));
    else
      rest.set(object.key_at(i), object.value_at(i));
  }
  return rest;
}

void Decoder::put(const JsonPtr& json, std::shared_ptr<const void> value) {
  if (slots_.size() >= sweep_at_) {
    erase_if(slots_, [](auto& slot) { return !std::exchange(slot.second.used, false); });
    sweep_at_ = std::max(kFewest, slots_.size() * 2);
  }
  slots_[json.get()] = Slot{json, std::move(value)};
}

void Decoder::replace(const Json* before, const JsonPtr& after) {
  const auto found = slots_.find(before);
  if (found == slots_.end()) return;
  slots_.erase(found);
  if (after != nullptr && !slots_.contains(after.get())) put(after, nullptr);
}

void Decoder::complain(const Json& json, const Error& error) {
  log_error("an object does not fit its kind and is passed over",
            {{"name", registry::metadata_text(json, "name")}, {"reason", error}});
}

std::optional<Duration> View::heartbeat_age(const std::string& node) const {
  if (moment_.heartbeats == nullptr) return std::nullopt;
  const auto found = moment_.heartbeats->find(node);
  if (found == moment_.heartbeats->end()) return std::nullopt;
  return moment_.monotonic - found->second;
}

const attach::Settings& View::settings() const {
  if (!settings_) {
    std::map<std::string, std::string> values;
    for (const auto& setting : all<model::longhorn::Setting>(model::longhorn::kDefaultNamespace))
      values[setting->metadata.name] = setting->value;
    settings_ = attach::Settings::from_values(std::move(values));
  }
  return *settings_;
}

void View::note(const model::KindInfo& kind, std::string_view space, std::string_view name,
                Digest digest) const {
  const bool own = name == scope_.key.name && space == scope_.key.space;
  if (own && scope_.family != nullptr && scope_.family->contains(&kind)) return;
  put(kind, space, name, digest);
}

void View::drop(const model::KindInfo& kind, std::string_view space, std::string_view name) const {
  const std::string key = registry::key_of(kind, space, name);
  std::erase_if(reads_.reads, [&](const Reads::Read& read) { return read.key == key; });
}

void View::put(const model::KindInfo& kind, std::string_view space, std::string_view name,
               Digest digest) const {
  Reads::Read read{name.empty() ? registry::prefix_of(kind, space) : registry::key_of(kind, space, name),
                   digest};
  for (const Reads::Read& one : reads_.reads)
    if (one == read) return;
  reads_.reads.push_back(std::move(read));
}

}  // namespace moor::control
