// TLS for one stream, as bytes in and bytes out (OpenSSL on memory BIOs): the loop keeps all I/O. TLS 1.2 or
// newer. A context is made once from files and outlives its sessions.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "block/core/buffer.h"
#include "block/core/nbd_bytes.h"

namespace moor::block::io {

struct TlsFiles {
  std::string certificate;  // PEM chain; a client may have none
  std::string key;
  std::string authority;  // server: clients must show a certificate of it; client: the server must
};

class TlsSession;

class TlsContext {
 public:
  static Result<std::unique_ptr<TlsContext>> server(const TlsFiles& files);
  // The authority is required: TLS to whoever answers would protect nothing.
  static Result<std::unique_ptr<TlsContext>> client(const TlsFiles& files);
  ~TlsContext();
  // `host`: a client checks that the certificate is for it; servers leave it empty.
  Result<std::unique_ptr<TlsSession>> session(const std::string& host = {}) const;

 private:
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class TlsSession {
 public:
  struct Impl;
  explicit TlsSession(std::unique_ptr<Impl> impl);
  ~TlsSession();

  // Bytes from the network. All are taken; they are bounded by what one receive brings.
  Result<void> feed(Bytes cipher);
  // Plain bytes for the machine; 0: none for now.
  Result<std::size_t> read(std::span<std::byte> into);
  // Moves plain bytes from `from` into the session, while the handshake allows it.
  Result<void> write(OutQueue& from);
  // Bytes for the network.
  void drain(OutQueue& to);
  bool is_established() const;
  // The other side said that it is done.
  bool has_ended() const;
  void close();  // says the same; drain() afterwards

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace moor::block::io
