// TLS by OpenSSL, behind a door of our own: contexts are made once and shared (shared, because connections
// that are still open keep using the one they began with when a server gets a new certificate); sessions
// belong to one connection. TLS 1.2 and newer, ALPN http/1.1, no renegotiation, no compression.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "http/message.h"

struct ssl_st;
struct ssl_ctx_st;
struct ssl_session_st;

namespace moor::http {

enum class ClientCertificates {
  none,      // not asked for
  optional,  // none or a valid one; an invalid one ends the handshake
  required,  // a valid one
  flagged,   // any; the handler sees whether it was verified
};

struct TlsServerOptions {
  std::string certificate_pem;  // the server's own, then its chain
  std::string key_pem;
  std::string client_ca_pem;
  ClientCertificates client_certificates = ClientCertificates::optional;
};

struct TlsClientOptions {
  std::string ca_pem;           // empty: the system's
  std::string certificate_pem;  // empty: no client certificate
  std::string key_pem;
  std::string server_name;  // what the server's certificate must name; empty: the host of the URL
  bool verify = true;       // false only where a person asked for it
};

class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> server(const TlsServerOptions& options);
  static Result<std::shared_ptr<const TlsContext>> client(const TlsClientOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  // The last ticket that a server gave a client of this context, and to which server it belongs. With it the
  // next connection costs neither side a signature. Written by sessions, which are on one thread.
  void keep_ticket(const std::string& host, ssl_session_st* ticket) const;
  ssl_ctx_st* context_;
  bool verify_ = true;
  std::string server_name_;
  mutable std::string ticket_host_;
  mutable ssl_session_st* ticket_ = nullptr;
};

// One end of one connection, on a socket that does not block. Calls never wait: want_read and want_write say
// what to wait for before the same call is made again.
class TlsSession {
 public:
  enum class Status { done, want_read, want_write, closed, failed };
  struct Outcome {
    Status status = Status::failed;
    std::size_t bytes = 0;
  };

  static Result<std::unique_ptr<TlsSession>> accept(std::shared_ptr<const TlsContext> context, int socket);
  static Result<std::unique_ptr<TlsSession>> connect(std::shared_ptr<const TlsContext> context, int socket,
                                                     const std::string& host);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  Outcome handshake();
  Outcome read(char* data, std::size_t size);
  Outcome write(const char* data, std::size_t size);
  void send_close();         // close_notify, without waiting for the other's
  bool has_pending() const;  // bytes that read() gives without the socket
  bool is_resumed() const;   // after the handshake: by a ticket, without certificates
  std::optional<ClientCertificate> peer_certificate() const;
  // After `failed`. unauthorized: one side does not accept the other's certificate.
  Error error() const;

  // The socket as OpenSSL reads it.
  struct Wire {
    static constexpr std::size_t kAhead = 4096;
    int socket = -1;
    std::unique_ptr<char[]> ahead;  // what was read with a record's head; absent when nothing is held
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t held() const { return end - begin; }
    ssize_t read(char* data, std::size_t size);
  };

 private:
  friend class TlsContext;
  TlsSession(std::shared_ptr<const TlsContext> context, std::unique_ptr<Wire> wire, ssl_st* ssl)
      : context_(std::move(context)), wire_(std::move(wire)), ssl_(ssl) {}
  Outcome outcome_of(int result, std::size_t bytes);
  void note_failure();
  static int on_ticket(ssl_st* ssl, ssl_session_st* ticket);

  std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<Wire> wire_;  // OpenSSL holds its address
  ssl_st* ssl_;
  std::string host_;     // of a client: whom it expects
  bool broken_ = false;  // OpenSSL forbids further use after a fatal error
  bool identity_problem_ = false;
  std::string problem_;
};

}  // namespace moor::http
