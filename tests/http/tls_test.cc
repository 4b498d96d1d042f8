#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"

namespace moor::http::test {
namespace {

using std::chrono::hours;

Validity valid_now() {
  return Validity::days_from(RealClock().wall(), 1);
}

// Two authorities of the same name, so that only the signature tells them apart.
struct Authorities {
  Identity ours = make_authority("mooring CA", valid_now()).value();
  Identity foreign = make_authority("mooring CA", valid_now()).value();

  static const Authorities& get() {
    static const Authorities made;
    return made;
  }
};

Identity client_identity(const Identity& authority, Validity validity = valid_now()) {
  return issue_certificate(authority,
                           {CertificateUse::client, "node-1", {"system:nodes", "b"}, {}, {}, validity})
      .value();
}

std::shared_ptr<const TlsContext> server_context(ClientCertificates mode = ClientCertificates::optional,
                                                 Validity validity = valid_now()) {
  const auto& authority = Authorities::get().ours;
  const auto identity =
      issue_certificate(authority,
                        {CertificateUse::server, "moord", {}, {"localhost"}, {"127.0.0.1"}, validity})
          .value();
  return TlsContext::server({identity.certificate_pem, identity.key_pem, authority.certificate_pem, mode})
      .value();
}

struct Tls {
  explicit Tls(std::shared_ptr<const TlsContext> context, ServerOptions options = {})
      : server(std::move(options), {{"127.0.0.1:0", std::move(context)}}) {}
  Result<Response> ask(std::optional<Identity> identity, const std::string& path = "/info",
                       const std::string& server_name = {}) {
    ClientOptions options{server.url(), {}, {}};
    options.tls.ca_pem = Authorities::get().ours.certificate_pem;
    options.tls.server_name = server_name;
    if (identity) {
      options.tls.certificate_pem = identity->certificate_pem;
      options.tls.key_pem = identity->key_pem;
    }
    return TestClient(options).send(Request::to(Method::get, path));
  }
  TestServer server;
};

TEST(Tls, TellsTheHandlerWhoTheClientIs) {
  Tls tls(server_context());
  EXPECT_EQ(tls.ask(std::nullopt)->body, "tls=true\n");
  EXPECT_EQ(tls.ask(client_identity(Authorities::get().ours))->body,
            "tls=true\ncn=node-1 verified=true\no=system:nodes\no=b\n");
}

// Two sessions and, between them, a wire on which the test decides what arrives together.
class Wire {
 public:
  Wire() {
    const auto& authority = Authorities::get().ours;
    for (auto* ends : {client_ends_, server_ends_})
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client = TlsSession::connect(TlsContext::client({.ca_pem = authority.certificate_pem}).value(),
                                 client_ends_[0], "localhost")
                 .value();
    static const auto context = server_context(ClientCertificates::none);
    server = TlsSession::accept(context, server_ends_[0]).value();
  }
  ~Wire() {
    for (const int end : {client_ends_[0], client_ends_[1], server_ends_[0], server_ends_[1]}) ::close(end);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void shake_hands() {
    const auto done = [](TlsSession& session) { return session.handshake().status == Status::done; };
    for (int i = 0; i < 10; ++i) {
      const bool both = done(*client) & done(*server);
      to_server(from_client());
      carry(server_ends_[1], client_ends_[1]);
      if (both) return;
    }
    FAIL() << "no handshake";
  }
  std::string from_client() const { return take(client_ends_[1]); }
  void to_server(std::string_view bytes) const {
    EXPECT_EQ(::send(server_ends_[1], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  using Status = TlsSession::Status;
  std::unique_ptr<TlsSession> client;
  std::unique_ptr<TlsSession> server;

 private:
  static std::string take(int from) {
    std::string bytes(256 * 1024, '\0');
    const ssize_t count = ::recv(from, bytes.data(), bytes.size(), 0);
    bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return bytes;
  }
  static void carry(int from, int to) {
    const std::string bytes = take(from);
    EXPECT_EQ(::send(to, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  int client_ends_[2];
  int server_ends_[2];
};

TEST(Tls, WhatCameWithARecordIsReadBeforeTheSocketIsWaitedFor) {
  std::size_t cuts = 1;  // as many as the second record has bytes
  for (std::size_t cut = 0; cut < cuts; ++cut) {
    Wire wire;
    wire.shake_hands();
    char data[64];
    const auto read = [&] { return wire.server->read(data, sizeof data); };
    ASSERT_EQ(read().status, Wire::Status::want_read);
    ASSERT_EQ(wire.client->write("first", 5).status, Wire::Status::done);
    const std::string first = wire.from_client();
    ASSERT_EQ(wire.client->write("second", 6).status, Wire::Status::done);
    const std::string second = wire.from_client();
    cuts = second.size() + 1;
    wire.to_server(first + second.substr(0, cut));
    ASSERT_EQ(std::string_view(data, read().bytes), "first");
    EXPECT_EQ(wire.server->has_pending(), cut > 0);
    if (cut < second.size()) {
      ASSERT_EQ(read().status, Wire::Status::want_read);
      // Half a record must not keep its reader from waiting.
      EXPECT_FALSE(wire.server->has_pending());
      wire.to_server(second.substr(cut));
    }
    ASSERT_EQ(std::string_view(data, read().bytes), "second");
    EXPECT_FALSE(wire.server->has_pending());
  }
}

TEST(Tls, LargeRecordsAreReadWhole) {
  Wire wire;
  wire.shake_hands();
  std::string sent;
  for (int i = 0; i < 60'000; ++i) sent.push_back(static_cast<char>('a' + i % 26));
  for (std::size_t at = 0; at < sent.size();) {
    const auto written = wire.client->write(sent.data() + at, sent.size() - at);
    ASSERT_EQ(written.status, Wire::Status::done);
    at += written.bytes;
  }
  wire.to_server(wire.from_client());
  std::string got;
  char data[5000];
  while (got.size() < sent.size()) {
    const auto read = wire.server->read(data, sizeof data);
    ASSERT_EQ(read.status, Wire::Status::done);
    got.append(data, read.bytes);
  }
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(wire.server->has_pending());
}

TEST(Tls, EndsTheConnectionOfInvalidCertificates) {
  Tls tls(server_context());
  const auto& authorities = Authorities::get();
  const WallTime now = RealClock().wall();
  const Validity past{{now.since_epoch - hours(48)}, {now.since_epoch - hours(24)}};
  const Validity future{{now.since_epoch + hours(24)}, {now.since_epoch + hours(48)}};
  const auto server_use =
      issue_certificate(authorities.ours, {CertificateUse::server, "node-1", {}, {}, {}, valid_now()});
  for (const auto& identity : {client_identity(authorities.foreign), client_identity(authorities.ours, past),
                               client_identity(authorities.ours, future), *server_use}) {
    const auto answer = tls.ask(identity);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.code(), Errc::unauthorized) << answer.error().message;
  }
  EXPECT_EQ(tls.server.stats().requests, 0U);
  EXPECT_EQ(tls.server.stats().handshakes_failed, 4U);
}

TEST(Tls, FlagsInvalidCertificatesWhereToldTo) {
  Tls tls(server_context(ClientCertificates::flagged));
  EXPECT_EQ(tls.ask(client_identity(Authorities::get().foreign))->body,
            "tls=true\ncn=node-1 verified=false\no=system:nodes\no=b\n");
  EXPECT_EQ(tls.ask(client_identity(Authorities::get().ours))->body,
            "tls=true\ncn=node-1 verified=true\no=system:nodes\no=b\n");
  EXPECT_EQ(tls.ask(std::nullopt)->body, "tls=true\n");
}

TEST(Tls, DemandsACertificateWhereToldTo) {
  Tls tls(server_context(ClientCertificates::required));
  EXPECT_TRUE(tls.ask(std::nullopt).is(Errc::unauthorized));
  EXPECT_EQ(tls.ask(client_identity(Authorities::get().ours))->status, 200);
  Tls none(server_context(ClientCertificates::none));
  EXPECT_EQ(none.ask(client_identity(Authorities::get().foreign))->body, "tls=true\n");
}

TEST(Tls, ClientRefusesTheWrongServer) {
  Tls tls(server_context());
  EXPECT_TRUE(tls.ask(std::nullopt, "/info", "localhost").ok());
  EXPECT_TRUE(tls.ask(std::nullopt, "/info", "other.example").is(Errc::unauthorized));
  EXPECT_TRUE(tls.ask(std::nullopt, "/info", "127.0.0.2").is(Errc::unauthorized));
  ClientOptions foreign{tls.server.url(), {}, {}};
  foreign.tls.ca_pem = Authorities::get().foreign.certificate_pem;
  EXPECT_TRUE(TestClient(foreign).send(Request::to(Method::get, "/info")).is(Errc::unauthorized));
  foreign.tls.verify = false;
  EXPECT_TRUE(TestClient(foreign).send(Request::to(Method::get, "/info")).ok());
  const WallTime now = RealClock().wall();
  Tls expired(server_context(ClientCertificates::none,
                             {{now.since_epoch - hours(48)}, {now.since_epoch - hours(24)}}));
  EXPECT_TRUE(expired.ask(std::nullopt).is(Errc::unauthorized));
}

TEST(Tls, AClientComesBackByATicketAndIsStillWhoItWas) {
  const auto& authorities = Authorities::get();
  Tls tls(server_context());
  Tls other(server_context());
  const auto options_for = [&](const Tls& whom) {
    ClientOptions options{whom.server.url(), {}, {}};
    options.max_idle_connections = 0;
    const Identity identity = client_identity(authorities.ours);
    options.tls.ca_pem = authorities.ours.certificate_pem;
    options.tls.certificate_pem = identity.certificate_pem;
    options.tls.key_pem = identity.key_pem;
    return options;
  };
  TestClient client(options_for(tls));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(client.send(Request::to(Method::get, "/info"))->body,
              "tls=true\ncn=node-1 verified=true\no=system:nodes\no=b\n");
  EXPECT_EQ(tls.server.stats().accepted, 4U);
  EXPECT_EQ(tls.server.stats().handshakes_resumed, 3U);
  // Another client has no ticket, and none is good for another server.
  EXPECT_TRUE(TestClient(options_for(tls)).send(Request::to(Method::get, "/info")).ok());
  EXPECT_TRUE(TestClient(options_for(other)).send(Request::to(Method::get, "/info")).ok());
  EXPECT_EQ(tls.server.stats().handshakes_resumed, 3U);
  EXPECT_EQ(other.server.stats().handshakes_resumed, 0U);
}

// A POST is not sent twice: it succeeds only where the connection that it is sent on lives.
TEST(Tls, AKeptConnectionServesUntilTheServerHasClosedIt) {
  const auto post_twice = [](Tls& tls, const std::function<void()>& meanwhile) {
    ClientOptions options{tls.server.url(), {}, {}};
    options.tls.ca_pem = Authorities::get().ours.certificate_pem;
    TestClient client(options);
    EXPECT_EQ(client.send(Request::to(Method::post, "/echo", "x"))->status, 200);
    meanwhile();
    EXPECT_EQ(client.send(Request::to(Method::post, "/echo", "x"))->status, 200);
  };
  Tls patient(server_context());
  post_twice(patient, [] {});
  EXPECT_EQ(patient.server.stats().accepted, 1U);
  Tls hurried(server_context(), quick_options());
  post_twice(hurried, [&] {
    ASSERT_TRUE(hurried.server.wait_stats([](const ServerStats& stats) { return stats.connections == 0; }));
  });
  EXPECT_EQ(hurried.server.stats().accepted, 2U);
}

TEST(Tls, ATicketDoesNotOutliveItsCertificate) {
  const auto& authorities = Authorities::get();
  Tls tls(server_context(ClientCertificates::flagged));
  const WallTime now = RealClock().wall();
  const Identity brief = client_identity(
      authorities.ours, {{now.since_epoch - hours(1)}, {now.since_epoch + std::chrono::seconds(2)}});
  ClientOptions options{tls.server.url(), {}, {}};
  options.max_idle_connections = 0;
  options.tls.ca_pem = authorities.ours.certificate_pem;
  options.tls.certificate_pem = brief.certificate_pem;
  options.tls.key_pem = brief.key_pem;
  TestClient client(options);
  const auto answer = [&] { return client.send(Request::to(Method::get, "/info"))->body; };
  const std::string known = "tls=true\ncn=node-1 verified=true\no=system:nodes\no=b\n";
  ASSERT_EQ(answer(), known);
  std::string last = known;
  const auto until = now.since_epoch + std::chrono::seconds(30);
  while (last == known && RealClock().wall().since_epoch < until) last = answer();
  EXPECT_EQ(last, "tls=true\ncn=node-1 verified=false\no=system:nodes\no=b\n");
  EXPECT_EQ(tls.server.stats().handshakes_resumed + 1, tls.server.stats().accepted)
      << "all but the first came by ticket";
}

// A server that has forgotten its keys, as after a restart: the ticket is worth nothing, and nothing is lost.
TEST(Tls, AnUnknownTicketGivesAWholeHandshake) {
  const auto& authorities = Authorities::get();
  auto first = std::make_unique<Tls>(server_context());
  ClientOptions options{first->server.url(), {}, {}};
  options.tls.ca_pem = authorities.ours.certificate_pem;
  TestClient client(options);
  EXPECT_EQ(client.send(Request::to(Method::get, "/info"))->body, "tls=true\n");
  const std::string address = "127.0.0.1:" + std::to_string(first->server.port());
  first.reset();
  TestServer second({}, {{address, server_context()}});
  EXPECT_EQ(client.send(Request::to(Method::get, "/info"))->body, "tls=true\n");
  EXPECT_EQ(second.stats().handshakes_resumed, 0U);
}

TEST(Tls, CarriesLargeBodiesAndStreamsBothWays) {
  Tls tls(server_context());
  ClientOptions options{tls.server.url(), {}, {}};
  options.tls.ca_pem = Authorities::get().ours.certificate_pem;
  TestClient client(options);
  const std::string body(2'500'000, 'b');
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.send(Request::to(Method::post, "/echo", body))->body, "POST [echo]\n" + body);
    EXPECT_EQ(client.send(Request::to(Method::get, "/shared"))->body.size(), 1024U * 1024);
    auto stream = client.open(Request::to(Method::get, "/stream?count=50")).value();
    for (int line = 0; line < 50; ++line)
      EXPECT_EQ(client.next_line(*stream).value(), "line " + std::to_string(line));
    EXPECT_EQ(client.next_line(*stream).value(), std::nullopt);
  }
  EXPECT_EQ(tls.server.stats().accepted, 1U);
}

TEST(Tls, StreamsNoticeThatTheirClientHasGoneAndEndAtShutdown) {
  Tls tls(server_context());
  ClientOptions options{tls.server.url(), {}, {}};
  options.tls.ca_pem = Authorities::get().ours.certificate_pem;
  TestClient client(options);
  auto stream = client.open(Request::to(Method::get, "/watch")).value();
  stream.reset();
  EXPECT_EQ(tls.server.handler().wait_event("watch ended"), "the client has gone");
  stream = client.open(Request::to(Method::get, "/watch")).value();
  EXPECT_EQ(client.next_line(*stream).value(), "first");
  tls.server.handler().wait_event("watching", 2);
  tls.server.begin_stop(kPatience);
  EXPECT_EQ(client.next_line(*stream).value(), "last");
  EXPECT_EQ(client.next_line(*stream).value(), std::nullopt);
}

TEST(Tls, CutsHandshakesThatStall) {
  Tls tls(server_context(), quick_options());
  RawClient silent(tls.server.port());
  RawClient half(tls.server.port());
  half.send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));
  RawClient plain(tls.server.port());
  plain.send(get("/info"));
  silent.read_to_end();
  half.read_to_end();
  plain.read_to_end();
  EXPECT_TRUE(tls.server.wait_stats([](const ServerStats& stats) {
    return stats.connections == 0 && stats.handshakes_failed == 3 && stats.requests == 0;
  }));
}

TEST(Tls, RefusesKeysThatDoNotFit) {
  const auto& authority = Authorities::get().ours;
  const auto one = client_identity(authority);
  const auto two = client_identity(authority);
  EXPECT_TRUE(
      TlsContext::server({one.certificate_pem, two.key_pem, authority.certificate_pem}).is(Errc::invalid));
  EXPECT_TRUE(TlsContext::server({one.certificate_pem, one.key_pem, "nonsense"}).is(Errc::invalid));
  EXPECT_TRUE(TlsContext::client({"nonsense", {}, {}, {}}).is(Errc::invalid));
}

}  // namespace
}  // namespace moor::http::test
