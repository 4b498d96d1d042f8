// The front of the house: the one Handler of the common listener. It answers health and metrics itself, asks
// who is there, and leads everybody else to the door that has the first segment of the path.
//
// Anonymous callers get health, and what a door calls open. One thread; doors outlive the front.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "doors/auth/authenticator.h"
#include "doors/front/door.h"
#include "doors/front/metrics.h"

namespace moor::doors {

class Front final : public http::Handler {
 public:
  // `fallback` answers for paths that nobody has, in its own words.
  Front(Authenticator& authenticator, Metrics& metrics, Door& fallback)
      : authenticator_(authenticator), metrics_(metrics), fallback_(fallback) {}

  // "api" for /api and everything below it.
  void add_door(std::string first_segment, Door& door) { doors_[std::move(first_segment)] = &door; }
  // /readyz and /healthz fail while one of them does; /livez only says that the loop turns.
  void add_check(std::string name, std::function<Result<void>()> check) {
    checks_.push_back({std::move(name), std::move(check)});
  }

  http::Lane classify(const http::Request& request) const override;
  Task<http::Response> handle(http::Request request) override;
  // For ServerOptions::render_refusal.
  http::Response render_refusal(const http::Refusal& refusal) const;
  // /healthz, /livez or /readyz, whoever asks.
  http::Response health(const http::Request& request) const;

 private:
  struct Check {
    std::string name;
    std::function<Result<void>()> run;
  };
  Door& door_of(const http::Request& request) const;
  http::Response show_metrics(const http::Request& request, const Caller& caller) const;

  Authenticator& authenticator_;
  Metrics& metrics_;
  Door& fallback_;
  std::map<std::string, Door*, std::less<>> doors_;
  std::vector<Check> checks_;
};

}  // namespace moor::doors
