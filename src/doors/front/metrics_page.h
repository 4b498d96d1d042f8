// What a listener for monitoring serves: /metrics and health, to everybody who reaches it, and nothing else.
// It is for addresses that only the monitoring reaches; the common listener asks for a credential.
//
// One thread; the front and the metrics outlive it.
#pragma once

#include "doors/front/front.h"
#include "doors/front/metrics.h"
#include "http/server.h"

namespace moor::doors {

class MetricsPage final : public http::Handler {
 public:
  MetricsPage(const Front& front, const Metrics& metrics) : front_(front), metrics_(metrics) {}
  http::Lane classify(const http::Request& /*request*/) const override { return http::Lane::system; }
  Task<http::Response> handle(http::Request request) override;

 private:
  const Front& front_;
  const Metrics& metrics_;
};

}  // namespace moor::doors
