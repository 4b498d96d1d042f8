#include "control/admission/admission.h"

#include <fmt/format.h>

#include <array>

#include "attach/grant.h"
#include "attach/settings.h"
#include "attach/tickets.h"
#include "control/controllers/family.h"
#include "control/runtime/controller.h"
#include "model/longhorn/setting.h"
#include "registry/prepare.h"
#include "registry/refusal.h"

namespace moor::control {
namespace {

using registry::AdmissionRequest;
using registry::Answer;
using Operation = AdmissionRequest::Operation;

template <class T>
bool is(const AdmissionRequest& request) {
  return request.kind == &kind_of<T>();
}

// Controllers in this process.
bool is_system(const AdmissionRequest& request) {
  return request.identity == nullptr || (request.identity->user.empty() && request.identity->node.empty());
}

template <class T>
Result<T> read(const AdmissionRequest& request, std::string_view space, std::string_view name) {
  const JsonPtr found = request.reader->find(kind_of<T>(), space, name);
  if (found == nullptr) return make_error(Errc::not_found, fmt::format("no {} {}", kind_of<T>().kind, name));
  return model::decode<T>(*found);
}

// Null: there is none that could be read.
template <class T>
std::shared_ptr<const T> decode_before(const AdmissionRequest& request) {
  if (request.before == nullptr) return nullptr;
  const auto known = model::decode_once<T>(*request.before);
  return *known ? std::shared_ptr<const T>(known, &**known) : nullptr;
}

void add_label(Json& object, std::string_view volume) {
  Json& labels = object["metadata"]["labels"];
  if (!labels.is_object()) labels = Json::object();
  labels.set(lh::kVolumeLabel, volume);
}

void add_finalizer(Json& object) {
  Json& finalizers = object["metadata"]["finalizers"];
  if (!finalizers.is_array()) finalizers = Json::array();
  for (std::size_t i = 0; i < finalizers.size(); ++i)
    if (finalizers.at(i).is_string() && finalizers.at(i).as_string() == lh::kFinalizer) return;
  finalizers.push_back(lh::kFinalizer);
}

Answer<void> number_tickets(const AdmissionRequest& request, Json& object, model::Time now) {
  auto after = model::decode<lh::VolumeAttachment>(object);
  if (!after) return {};  // validation says what is wrong with it
  const auto known = decode_before<lh::VolumeAttachment>(request);
  const lh::VolumeAttachment none;
  const lh::VolumeAttachment& before = known == nullptr ? none : *known;
  lh::number_tickets(before.spec, after->spec, now, before.status);
  model::encode_onto(object, *after);
  return {};
}

// Made by hand, before the volume controller could: as it would have made it.
void complete_attachment(const AdmissionRequest& request, Json& object) {
  const Json* spec = object.find("spec");
  const std::string name(spec == nullptr ? "" : spec->get_string("volume").value_or(""));
  const auto volume = read<lh::Volume>(request, request.space, name);
  if (!volume) return;
  add_label(object, name);
  add_finalizer(object);
  Json& owners = object["metadata"]["ownerReferences"];
  if (owners.is_array() && !owners.empty()) return;
  owners = Json::array({Json::object({{"apiVersion", lh::kApiVersion},
                                      {"kind", "Volume"},
                                      {"name", name},
                                      {"uid", volume->metadata.uid},
                                      {"controller", true},
                                      {"blockOwnerDeletion", true}})});
}

bool is_token(const Json& secret) {
  return secret.get_string("type") == kTokenType;
}

void fill_token(Json& secret, Random& random) {
  const Json* data = secret.find("data");
  if (data != nullptr && data->get_string("token")) return;
  std::array<std::byte, 32> bytes{};
  random.fill(bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Json& values = secret["data"];
  if (!values.is_object()) values = Json::object();
  values.set("token", model::core::to_base64(text));
}

Answer<void> check_volume(const AdmissionRequest& request, const Json& object) {
  if (is_system(request) || request.subresource == "status") return {};
  const Json* spec = object.find("spec");
  const Json* before = request.before == nullptr ? nullptr : request.before->find("spec");
  model::Causes causes;
  const auto text = [](const Json* part, std::string_view field) {
    return part == nullptr ? std::string() : std::string(part->get_string(field).value_or(""));
  };
  for (const char* field : {"nodeID", "migrationNodeID", "lastAttachedBy"})
    if (text(spec, field) != text(before, field))
      causes.push_back(model::forbidden(
          fmt::format("spec.{}", field),
          "is set by the attachment rules; ask with a ticket in the volume's VolumeAttachment"));
  const auto disabled = [](const Json* part) {
    return part != nullptr && part->get_bool("disableFrontend").value_or(false);
  };
  if (disabled(spec) != disabled(before))
    causes.push_back(model::forbidden("spec.disableFrontend",
                                      "is set by the attachment rules; a ticket's parameters ask for it"));
  if (causes.empty()) return {};
  return registry::refuse_invalid(*request.kind, request.name, std::move(causes));
}

Answer<void> check_attachment(const AdmissionRequest& request, const Json& object) {
  if (request.subresource == "status") return {};
  const auto decoded = model::decode_once<lh::VolumeAttachment>(object);
  if (!*decoded) return decoded->error();
  const lh::VolumeAttachment& after = **decoded;
  const auto volume = read<lh::Volume>(request, request.space, after.spec.volume);
  if (!volume) return {};  // a book without its volume has no effect
  const auto before = decode_before<lh::VolumeAttachment>(request);
  model::Causes causes = attach::check_ticket_change(*volume, before.get(), after);
  if (causes.empty()) return {};
  return registry::refuse_invalid(*request.kind, request.name, std::move(causes));
}

attach::GrantCaller caller_of(const AdmissionRequest& request) {
  attach::GrantCaller caller;
  if (is_system(request)) {
    caller.role = attach::GrantRole::volume_controller;
    return caller;
  }
  caller.name = request.identity->user;
  caller.node = request.identity->node;
  if (caller.node.empty()) return caller;
  caller.role = attach::GrantRole::agent;
  const auto node = read<lh::Node>(request, lh::kDefaultNamespace, caller.node);
  caller.incarnation = node ? node->status.incarnation : -1;
  return caller;
}

Answer<void> check_grant(const AdmissionRequest& request, const Json& object) {
  if (request.before == nullptr) {
    if (is_system(request)) return {};
    return registry::refuse_forbidden(*request.kind, request.name, "a Grant is made with its volume");
  }
  const auto before = model::decode_once<mr::Grant>(*request.before);
  const auto after = model::decode_once<mr::Grant>(object);
  if (!*before || !*after) return (*before ? *after : *before).error();
  model::Causes causes = attach::check_grant_change(**before, **after, caller_of(request));
  if (causes.empty()) return {};
  return registry::refuse_invalid(*request.kind, request.name, std::move(causes));
}

Answer<void> check_secret(const AdmissionRequest& request, const Json& object) {
  if (request.before == nullptr || !is_token(*request.before)) return {};
  const Json* was = request.before->find_path({"data", "token"});
  const Json* now = object.find_path({"data", "token"});
  if (was == nullptr || (now != nullptr && *now == *was)) return {};
  return registry::refuse_invalid(
      *request.kind, request.name,
      {model::forbidden("data.token",
                        "the token of a volume never changes: its replicas know only this one")});
}

// The volume that an object belongs to is there and not on its way out.
bool volume_lives(const AdmissionRequest& request, const Json& object) {
  const auto volume = read<lh::Volume>(request, request.space, key_by_volume_label(object).name);
  return volume && !volume->metadata.is_being_deleted();
}

std::string objection_to_removal(const AdmissionRequest& request) {
  const Json& object = *request.before;
  if (is<mr::Ledger>(request)) {
    return read<lh::Node>(request, lh::kDefaultNamespace, request.name) ? "its node still exists" : "";
  }
  if (!volume_lives(request, object)) return {};
  if (is<mr::Grant>(request)) return "a Grant lives as long as its volume";
  if (is<model::core::Secret>(request))
    return is_token(object) ? "the token of a volume lives as long as the volume" : "";
  const std::string volume = key_by_volume_label(object).name;
  const auto grant = read<mr::Grant>(request, request.space, volume);
  if (!grant) return {};
  if (is<lh::Engine>(request) && grant->spec.active && grant->spec.active->engine == request.name)
    return "it may write to its volume now; detach the volume first";
  if (is<lh::Replica>(request)) {
    const auto member = grant->spec.members.find(std::string(request.name));
    if (member != grant->spec.members.end() && member->second == mr::MemberMode::rw)
      return "it holds the volume's data and is in step";
  }
  return {};
}

}  // namespace

bool ControlAdmission::handles(const model::KindInfo& kind) const {
  for (const model::KindInfo* one :
       {&kind_of<lh::Volume>(), &kind_of<lh::VolumeAttachment>(), &kind_of<mr::Grant>(),
        &kind_of<lh::Setting>(), &kind_of<model::core::Secret>(), &kind_of<mr::Ledger>(),
        &kind_of<lh::Engine>(), &kind_of<lh::Replica>()})
    if (one == &kind) return true;
  return false;
}

Answer<void> ControlAdmission::mutate(const AdmissionRequest& request, Json& object) {
  if (request.subresource == "status") return {};
  const bool fresh = request.operation == Operation::create;
  if (is<lh::Volume>(request) && fresh) add_label(object, request.name);
  if (is<lh::VolumeAttachment>(request)) {
    if (fresh) complete_attachment(request, object);
    return number_tickets(request, object, model::Time(clock_.wall().since_epoch));
  }
  if (is<model::core::Secret>(request) && is_token(object)) fill_token(object, random_);
  return {};
}

Answer<void> ControlAdmission::validate(const AdmissionRequest& request, const Json& object) {
  if (is<lh::Volume>(request)) return check_volume(request, object);
  if (is<lh::VolumeAttachment>(request)) return check_attachment(request, object);
  if (is<mr::Grant>(request)) return check_grant(request, object);
  if (is<model::core::Secret>(request)) return check_secret(request, object);
  if (is<mr::Ledger>(request) && !is_system(request))
    return registry::refuse_forbidden(*request.kind, request.name, "the system alone keeps it");
  if (is<lh::Setting>(request) && request.subresource != "status" && request.space == lh::kDefaultNamespace) {
    model::Causes causes = attach::check_setting(request.name, object.get_string("value").value_or(""));
    if (!causes.empty()) return registry::refuse_invalid(*request.kind, request.name, std::move(causes));
  }
  return {};
}

Answer<void> ControlAdmission::before_delete(const AdmissionRequest& request) {
  if (is_system(request) || request.before == nullptr) return {};
  const std::string why = objection_to_removal(request);
  if (why.empty()) return {};
  return registry::refuse_forbidden(*request.kind, request.name, why);
}

}  // namespace moor::control
