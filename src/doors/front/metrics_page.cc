#include "doors/front/metrics_page.h"

namespace moor::doors {

Task<http::Response> MetricsPage::handle(http::Request request) {
  const auto& segments = request.target.segments;
  const std::string what = segments.size() == 1 ? segments.front() : "";
  if (request.method != http::Method::get && request.method != http::Method::head)
    co_return http::Response::text(405, "this address is only read\n");
  if (what == "metrics") co_return http::Response::text(200, metrics_.render(), "text/plain; version=0.0.4");
  if (what == "healthz" || what == "livez" || what == "readyz") co_return front_.health(request);
  co_return http::Response::text(404, "here are only /metrics, /healthz, /livez and /readyz\n");
}

}  // namespace moor::doors
