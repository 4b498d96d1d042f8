#include "block/io/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <limits>

namespace moor::block::io {

namespace {

Error tls_error(std::string_view what) {
  char text[256] = "unknown";
  if (const auto code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return make_error(Errc::unavailable, fmt::format("TLS: {}: {}", what, text));
}

int int_of(std::size_t size) {
  return static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
}

}  // namespace

struct TlsContext::Impl {
  SSL_CTX* context = nullptr;
  bool is_server = false;
  ~Impl() { SSL_CTX_free(context); }

  static Result<std::unique_ptr<Impl>> make(const TlsFiles& files, bool is_server) {
    auto impl = std::make_unique<Impl>();
    impl->is_server = is_server;
    impl->context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    if (impl->context == nullptr) return tls_error("context");
    SSL_CTX_set_min_proto_version(impl->context, TLS1_2_VERSION);
    SSL_CTX_set_mode(impl->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(impl->context, SSL_OP_NO_RENEGOTIATION);
    if (!files.certificate.empty()) {
      if (SSL_CTX_use_certificate_chain_file(impl->context, files.certificate.c_str()) != 1) {
        return tls_error(files.certificate);
      }
      if (SSL_CTX_use_PrivateKey_file(impl->context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
        return tls_error(files.key);
      }
      if (SSL_CTX_check_private_key(impl->context) != 1)
        return tls_error("the key is of another certificate");
    }
    if (!files.authority.empty()) {
      if (SSL_CTX_load_verify_locations(impl->context, files.authority.c_str(), nullptr) != 1) {
        return tls_error(files.authority);
      }
      SSL_CTX_set_verify(impl->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    return impl;
  }
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::unique_ptr<TlsContext>> TlsContext::server(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty()) {
    return make_error(Errc::invalid, "a TLS server needs a certificate and its key");
  }
  TRY(auto impl, Impl::make(files, true));
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(impl)));
}

Result<std::unique_ptr<TlsContext>> TlsContext::client(const TlsFiles& files) {
  if (files.authority.empty()) return make_error(Errc::invalid, "a TLS client needs an authority to trust");
  TRY(auto impl, Impl::make(files, false));
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(impl)));
}

struct TlsSession::Impl {
  SSL* ssl = nullptr;
  BIO* in = nullptr;   // owned by ssl
  BIO* out = nullptr;  // owned by ssl
  bool ended = false;
  ~Impl() { SSL_free(ssl); }
};

Result<std::unique_ptr<TlsSession>> TlsContext::session(const std::string& host) const {
  auto impl = std::make_unique<TlsSession::Impl>();
  impl->ssl = SSL_new(impl_->context);
  if (impl->ssl == nullptr) return tls_error("session");
  impl->in = BIO_new(BIO_s_mem());
  impl->out = BIO_new(BIO_s_mem());
  SSL_set_bio(impl->ssl, impl->in, impl->out);
  if (impl_->is_server) {
    SSL_set_accept_state(impl->ssl);
  } else {
    SSL_set_connect_state(impl->ssl);
    if (!host.empty()) {
      SSL_set_tlsext_host_name(impl->ssl, host.c_str());
      // A name or an address: the certificate must carry it either way.
      const bool is_ip = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(impl->ssl), host.c_str()) == 1;
      if (!is_ip && SSL_set1_host(impl->ssl, host.c_str()) != 1) return tls_error("host name");
    }
  }
  auto session = std::make_unique<TlsSession>(std::move(impl));
  TRY_VOID(session->feed({}));  // a client speaks first
  return session;
}

TlsSession::TlsSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsSession::~TlsSession() = default;

bool TlsSession::is_established() const {
  return SSL_is_init_finished(impl_->ssl) == 1;
}
bool TlsSession::has_ended() const {
  return impl_->ended;
}

Result<void> TlsSession::feed(Bytes cipher) {
  while (!cipher.empty()) {
    const int taken = BIO_write(impl_->in, cipher.data(), int_of(cipher.size()));
    if (taken <= 0) return tls_error("memory");
    cipher = cipher.subspan(static_cast<std::size_t>(taken));
  }
  if (is_established()) return {};
  ERR_clear_error();
  const int result = SSL_do_handshake(impl_->ssl);
  if (result == 1) return {};
  const int reason = SSL_get_error(impl_->ssl, result);
  if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) return {};
  return tls_error("handshake");
}

Result<std::size_t> TlsSession::read(std::span<std::byte> into) {
  if (!is_established() || into.empty()) return std::size_t{0};
  ERR_clear_error();
  const int result = SSL_read(impl_->ssl, into.data(), int_of(into.size()));
  if (result > 0) return static_cast<std::size_t>(result);
  switch (SSL_get_error(impl_->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return std::size_t{0};
    case SSL_ERROR_ZERO_RETURN: impl_->ended = true; return std::size_t{0};
    default: return tls_error("receive");
  }
}

Result<void> TlsSession::write(OutQueue& from) {
  if (!is_established()) return {};
  constexpr std::size_t kMostAhead = 1u << 20;  // cipher bytes that wait for the socket
  while (!from.empty() && BIO_ctrl_pending(impl_->out) < kMostAhead) {
    iovec piece{};
    from.gather(&piece, 1);
    ERR_clear_error();
    const int result = SSL_write(impl_->ssl, piece.iov_base, int_of(std::min(piece.iov_len, kMostAhead)));
    if (result <= 0) return tls_error("send");
    from.consume(static_cast<std::size_t>(result));
  }
  return {};
}

void TlsSession::drain(OutQueue& to) {
  while (BIO_ctrl_pending(impl_->out) > 0) {
    std::byte buffer[4096];
    const int got = BIO_read(impl_->out, buffer, sizeof buffer);
    if (got <= 0) return;
    to.put_bytes(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
}

void TlsSession::close() {
  if (!is_established()) return;
  ERR_clear_error();
  SSL_shutdown(impl_->ssl);
  ERR_clear_error();
}

}  // namespace moor::block::io
