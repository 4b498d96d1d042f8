// A short connection beside the one in use: learns what the export is now, and says goodbye.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "block/io/nbd_link.h"

namespace moor::block::device {

// `done` is called once and may destroy the probe.
class Probe final : public io::NbdLinkHandler {
 public:
  using Done = std::function<void(Result<nbd::RemoteExport>)>;
  Probe(io::Loop& loop, BufferPool& pool, const io::Address& engine, const std::string& export_name,
        Done done)
      : done_(std::move(done)) {
    io::NbdLinkOptions link;
    link.client.export_name = export_name;
    link.client.block_status = false;
    link_ = std::make_unique<io::NbdLink>(loop, pool, engine, std::move(link), *this);
  }

 private:
  void on_event(nbd::ClientEvent event) override {
    if (auto* ready = std::get_if<nbd::Ready>(&event)) {
      outcome_ = std::move(ready->remote);
      link_->disconnect();
    } else if (auto* refused = std::get_if<nbd::Refused>(&event)) {
      outcome_ = make_error(Errc::unavailable, std::move(refused->message));
    }
  }
  void on_closed(std::optional<Error>) override {
    const Done done = std::move(done_);
    Result<nbd::RemoteExport> outcome = std::move(outcome_);
    done(std::move(outcome));  // destroys this
  }

  Done done_;
  Result<nbd::RemoteExport> outcome_ = make_error(Errc::unavailable, "the engine does not answer");
  std::unique_ptr<io::NbdLink> link_;
};

}  // namespace moor::block::device
