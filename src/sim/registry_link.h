// An agent's or a person's way to the API: registry::Registry over the network, to whichever server answers,
// with the caller's identity. Errors as the remote client has them: unavailable when a connection cannot be
// made or breaks, timed_out when nothing comes back, 410 for a watch that starts too far back.
#pragma once

#include "registry/registry.h"
#include "sim/call.h"
#include "sim/server.h"

namespace moor::sim {

class RegistryLink final : public registry::Registry {
 public:
  using Servers = std::vector<std::unique_ptr<Server>>;
  RegistryLink(Caller& caller, Servers& servers, registry::Identity identity);

  Task<registry::Answer<registry::Written>> create(registry::ResourceName where, Json object,
                                                   registry::WriteOptions options) override;
  Task<registry::Answer<registry::Item>> get(registry::ResourceName what, std::string version) override;
  Task<registry::Answer<registry::Listed>> list(registry::ResourceName what,
                                                registry::ListOptions options) override;
  Task<registry::Answer<std::unique_ptr<registry::Watcher>>> watch(registry::ResourceName what,
                                                                   registry::WatchOptions options) override;
  Task<registry::Answer<registry::Written>> update(registry::ResourceName what, Json object,
                                                   registry::WriteOptions options) override;
  Task<registry::Answer<registry::Written>> patch(registry::ResourceName what, registry::PatchType type,
                                                  Json patch, registry::WriteOptions options) override;
  Task<registry::Answer<registry::Deleted>> remove(registry::ResourceName what,
                                                   registry::DeleteOptions options) override;
  Task<registry::Answer<registry::Listed>> remove_collection(registry::ResourceName what,
                                                             registry::ListOptions which,
                                                             registry::DeleteOptions options) override;

  // Called around every call that changes something: for crash points.
  std::function<void(const std::string& what)> before_write;

 private:
  template <class T>
  using Make = std::function<Task<registry::Answer<T>>(registry::LocalRegistry&)>;
  template <class T>
  Task<registry::Answer<T>> call(Make<T> make);
  template <class T>
  Task<registry::Answer<T>> change(std::string what, Make<T> make);
  EndpointPtr choose();

  Caller& caller_;
  Servers& servers_;
  registry::Identity identity_;
  std::size_t preferred_ = 0;
};

}  // namespace moor::sim
