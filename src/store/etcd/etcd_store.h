// The store in etcd (v3, 3.4 or newer): for several servers that share one state. The contract is store.h's;
// what is special here:
//
// - Reads are linearizable and are retried on other endpoints until their time is up. A commit is sent once;
// it is
//   sent again only when it is certain that the first try had no effect. Errc::timed_out: nobody knows.
// - A watch resumes by itself after a lost connection, without gap or repeat. It ends with Errc::expired when
// etcd
//   has compacted what it still needs, when its reader is too slow, or when more keys than fit into one
//   revision (256) left with one lease; with Errc::corrupt when something else wrote below the root.
// - Compaction is etcd's and therefore counts for everything in that etcd, not only for this root.
// - etcd extends leases shorter than its minimum (2 s with the default election timeout).
//
// gRPC's threads only hand messages to the executor. Destroying the store cancels what is under way: reads
// end with Errc::cancelled, commits with Errc::timed_out, watches with Errc::cancelled; it waits for gRPC's
// threads to let go.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/task.h"
#include "store/store.h"

namespace moor::store {

struct EtcdOptions {
  // "host:port", "http://host:port", "https://host:port" or "unix:/path".
  std::vector<std::string> endpoints;
  std::string root = "/mooring/";  // all keys start with it; at most 128 bytes
  // PEM text. With a CA the connection is TLS and the server's certificate must come from it; with
  // certificate and key we identify ourselves by them. https without a CA trusts the system's.
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_server_name;  // expected in the server's certificate; empty: the host of the endpoint

  Duration open_timeout = std::chrono::seconds(10);
  Duration request_timeout = std::chrono::seconds(5);  // of one call of the store, retries included
  Duration health_interval = std::chrono::seconds(2);
  // A connection that does not answer a ping in time is dropped. etcd refuses pings more often than every 5
  // s.
  Duration keepalive_interval = std::chrono::seconds(10);
  Duration keepalive_timeout = std::chrono::seconds(3);
  // A watch stops reading from etcd when this much waits for its reader; when that lasts longer than the
  // patience, it ends with Errc::expired.
  std::size_t watch_buffer_bytes = 8u << 20;
  std::size_t watch_buffer_events = 10'000;
  Duration watch_patience = std::chrono::seconds(30);
};

// unavailable / timed_out: no endpoint answers (the last reason is in the message). corrupt: there is
// something under the root that is no store of ours. unsupported: a store of a newer format. invalid: the
// options make no sense.
Task<Result<std::unique_ptr<Store>>> open_etcd_store(Executor& executor, EtcdOptions options);

}  // namespace moor::store
