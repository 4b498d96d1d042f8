#include "http/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace moor::http {
namespace {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, Deleter<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;

Error openssl_error(Errc code, std::string what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return make_error(code, std::move(what) + ": " + text.data());
}

// OpenSSL wants its queue of errors empty before each call. To empty one that is empty already takes it
// dozens of calls that free nothing.
void forget_errors() {
  if (ERR_peek_error() != 0) ERR_clear_error();
}

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL: a client that has gone would kill the process.
TlsSession::Wire& wire_of(BIO* bio) {
  return *static_cast<TlsSession::Wire*>(BIO_get_data(bio));
}
int bio_result(BIO* bio, ssize_t count, int retry_flag) {
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}
int bio_write(BIO* bio, const char* data, int size) {
  return bio_result(bio, ::send(wire_of(bio).socket, data, static_cast<std::size_t>(size), MSG_NOSIGNAL),
                    BIO_FLAGS_WRITE);
}
int bio_read(BIO* bio, char* data, int size) {
  return bio_result(bio, wire_of(bio).read(data, static_cast<std::size_t>(size)), BIO_FLAGS_READ);
}
long bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* socket_bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    MOOR_ASSERT(made != nullptr);
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                    unsigned in_size, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(&chosen, out_size, kOurs, sizeof(kOurs) - 1, in, in_size);
  *out = chosen;
  // A client that offers only h2 is told so now instead of misunderstanding our bytes later.
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

BioPtr memory_bio(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<ContextPtr> new_context(const SSL_METHOD* method) {
  ContextPtr context(SSL_CTX_new(method));
  if (!context) return openssl_error(Errc::internal, "create a TLS context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Idle connections give their 34 KiB of record buffers back: ten thousand watches are mostly idle.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

Result<void> use_identity(SSL_CTX* context, const std::string& certificate_pem, const std::string& key_pem) {
  const BioPtr certificates = memory_bio(certificate_pem);
  const X509Ptr leaf(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  if (!leaf || SSL_CTX_use_certificate(context, leaf.get()) != 1)
    return openssl_error(Errc::invalid, "read the certificate");
  constexpr int kMaxChain = 8;
  for (int i = 0; i < kMaxChain; ++i) {
    X509Ptr next(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
    if (!next) break;
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1)
      return openssl_error(Errc::invalid, "add a certificate of the chain");
  }
  ERR_clear_error();
  const KeyPtr key(PEM_read_bio_PrivateKey(memory_bio(key_pem).get(), nullptr, nullptr, nullptr));
  if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    return openssl_error(Errc::invalid, "read the private key");
  return {};
}

Result<void> trust(SSL_CTX* context, const std::string& ca_pem, bool announce) {
  const BioPtr authorities = memory_bio(ca_pem);
  int count = 0;
  constexpr int kMaxAuthorities = 256;
  for (; count < kMaxAuthorities; ++count) {
    X509Ptr authority(PEM_read_bio_X509(authorities.get(), nullptr, nullptr, nullptr));
    if (!authority) break;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1)
      return openssl_error(Errc::invalid, "add a certificate authority");
    if (announce) SSL_CTX_add_client_CA(context, authority.get());
  }
  ERR_clear_error();
  if (count == 0) return make_error(Errc::invalid, "no certificate authority found in the PEM text");
  return {};
}

int accept_any(int, X509_STORE_CTX*) {
  return 1;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, 16> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

std::vector<std::string> subject_entries(X509* certificate, int nid) {
  std::vector<std::string> values;
  X509_NAME* subject = X509_get_subject_name(certificate);
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, nid, at)) >= 0;) {
    unsigned char* text = nullptr;
    const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (size >= 0) values.emplace_back(reinterpret_cast<char*>(text), static_cast<std::size_t>(size));
    OPENSSL_free(text);
  }
  return values;
}

}  // namespace

// OpenSSL asks for the five bytes of a record's head and then for the rest: what came with the head waits
// here, which saves a system call for every record that is small.
ssize_t TlsSession::Wire::read(char* data, std::size_t size) {
  if (held() == 0 && size >= kAhead) return ::recv(socket, data, size, 0);
  if (held() == 0) {
    if (ahead == nullptr) ahead = std::make_unique_for_overwrite<char[]>(kAhead);
    const ssize_t count = ::recv(socket, ahead.get(), kAhead, 0);
    if (count <= 0) return count;
    begin = 0;
    end = static_cast<std::size_t>(count);
  }
  const std::size_t take = std::min(size, held());
  std::memcpy(data, ahead.get() + begin, take);
  begin += take;
  return static_cast<ssize_t>(take);
}

TlsContext::~TlsContext() {
  SSL_SESSION_free(ticket_);
  SSL_CTX_free(context_);
}

Result<std::shared_ptr<const TlsContext>> TlsContext::server(const TlsServerOptions& options) {
  TRY(auto context, new_context(TLS_server_method()));
  TRY_VOID(use_identity(context.get(), options.certificate_pem, options.key_pem));
  int mode = SSL_VERIFY_NONE;
  if (options.client_certificates != ClientCertificates::none) {
    mode = SSL_VERIFY_PEER;
    if (options.client_certificates == ClientCertificates::required) mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    TRY_VOID(trust(context.get(), options.client_ca_pem, true));
  }
  const bool flagged = options.client_certificates == ClientCertificates::flagged;
  SSL_CTX_set_verify(context.get(), mode, flagged ? accept_any : nullptr);
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  // Resumption by tickets: the client keeps the state, so that it costs us no memory per client. A resumed
  // session skips the check of the certificate's end, hence the short life.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 1);
  SSL_CTX_set_timeout(context.get(), 300);
  static constexpr unsigned char kSessionContext[] = "mooring";
  SSL_CTX_set_session_id_context(context.get(), kSessionContext, sizeof(kSessionContext) - 1);
  return std::shared_ptr<const TlsContext>(new TlsContext(context.release()));
}

Result<std::shared_ptr<const TlsContext>> TlsContext::client(const TlsClientOptions& options) {
  TRY(auto context, new_context(TLS_client_method()));
  if (!options.certificate_pem.empty())
    TRY_VOID(use_identity(context.get(), options.certificate_pem, options.key_pem));
  if (!options.ca_pem.empty()) {
    TRY_VOID(trust(context.get(), options.ca_pem, false));
  } else if (SSL_CTX_set_default_verify_paths(context.get()) != 1) {
    return openssl_error(Errc::internal, "load the system's certificate authorities");
  }
  SSL_CTX_set_verify(context.get(), options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  SSL_CTX_set_alpn_protos(context.get(), kOurs, sizeof(kOurs) - 1);
  // Tickets of TLS 1.3 come after the handshake, one by one; they are kept by us, not by OpenSSL.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context.get(), TlsSession::on_ticket);
  auto made = std::shared_ptr<TlsContext>(new TlsContext(context.release()));
  made->verify_ = options.verify;
  made->server_name_ = options.server_name;
  return std::shared_ptr<const TlsContext>(std::move(made));
}

namespace {
Result<SSL*> new_session(SSL_CTX* context, TlsSession::Wire* wire) {
  std::unique_ptr<SSL, Deleter<SSL_free>> ssl(SSL_new(context));
  BIO* bio = BIO_new(socket_bio_method());
  if (!ssl || bio == nullptr) {
    BIO_free(bio);
    return openssl_error(Errc::internal, "create a TLS session");
  }
  BIO_set_data(bio, wire);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  return ssl.release();
}
}  // namespace

Result<std::unique_ptr<TlsSession>> TlsSession::accept(std::shared_ptr<const TlsContext> context,
                                                       int socket) {
  auto wire = std::make_unique<Wire>();
  wire->socket = socket;
  TRY(SSL * ssl, new_session(context->context_, wire.get()));
  SSL_set_accept_state(ssl);
  return std::unique_ptr<TlsSession>(new TlsSession(std::move(context), std::move(wire), ssl));
}

Result<std::unique_ptr<TlsSession>> TlsSession::connect(std::shared_ptr<const TlsContext> context, int socket,
                                                        const std::string& host) {
  const std::string name = context->server_name_.empty() ? host : context->server_name_;
  auto wire = std::make_unique<Wire>();
  wire->socket = socket;
  TRY(SSL * ssl, new_session(context->context_, wire.get()));
  std::unique_ptr<TlsSession> session(new TlsSession(context, std::move(wire), ssl));
  SSL_set_connect_state(ssl);
  if (is_address(name)) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) != 1)
      return openssl_error(Errc::internal, "set the expected address");
  } else if (SSL_set1_host(ssl, name.c_str()) != 1 || SSL_set_tlsext_host_name(ssl, name.c_str()) != 1) {
    return openssl_error(Errc::invalid, "set the expected host name");
  }
  session->host_ = name;
  SSL_set_app_data(ssl, session.get());
  // A ticket that is too old, or that the server no longer knows, gives a whole handshake. The one host that
  // it is shown to is the one that was verified when it was given.
  if (context->ticket_ != nullptr && context->ticket_host_ == name &&
      SSL_SESSION_is_resumable(context->ticket_) == 1 && SSL_set_session(ssl, context->ticket_) != 1)
    ERR_clear_error();
  return session;
}

// A copy, because OpenSSL spoils the session of a connection that is closed without a farewell. Returning 0
// leaves the original where it is.
int TlsSession::on_ticket(SSL* ssl, SSL_SESSION* ticket) {
  const auto* session = static_cast<const TlsSession*>(SSL_get_app_data(ssl));
  SSL_SESSION* copy = session == nullptr ? nullptr : SSL_SESSION_dup(ticket);
  if (copy != nullptr) session->context_->keep_ticket(session->host_, copy);
  return 0;
}

void TlsContext::keep_ticket(const std::string& host, SSL_SESSION* ticket) const {
  SSL_SESSION_free(ticket_);
  ticket_ = ticket;
  ticket_host_ = host;
}

TlsSession::~TlsSession() {
  SSL_free(ssl_);
}

void TlsSession::note_failure() {
  broken_ = true;
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  const long verify = SSL_get_verify_result(ssl_);
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    identity_problem_ = true;
    problem_ = std::string("certificate refused: ") + X509_verify_cert_error_string(verify);
  } else if (code != 0) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    identity_problem_ = (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
                        alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED ||
                        alert == TLS13_AD_CERTIFICATE_REQUIRED ||
                        reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE;
    const char* text = ERR_reason_error_string(code);
    problem_ = text != nullptr ? text : "TLS failure";
  } else {
    problem_ = "connection lost";
  }
  ERR_clear_error();
}

TlsSession::Outcome TlsSession::outcome_of(int result, std::size_t bytes) {
  // Ten thousand idle connections shall not hold it.
  if (wire_->held() == 0) wire_->ahead.reset();
  if (result > 0) return {Status::done, bytes};
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ: return {Status::want_read, 0};
    case SSL_ERROR_WANT_WRITE: return {Status::want_write, 0};
    case SSL_ERROR_ZERO_RETURN: return {Status::closed, 0};
    default: note_failure(); return {Status::failed, 0};
  }
}

TlsSession::Outcome TlsSession::handshake() {
  if (broken_) return {};
  forget_errors();
  return outcome_of(SSL_do_handshake(ssl_), 0);
}

TlsSession::Outcome TlsSession::read(char* data, std::size_t size) {
  if (broken_) return {};
  forget_errors();
  std::size_t count = 0;
  const int result = SSL_read_ex(ssl_, data, size, &count);
  return outcome_of(result, count);
}

TlsSession::Outcome TlsSession::write(const char* data, std::size_t size) {
  if (broken_) return {};
  forget_errors();
  std::size_t count = 0;
  const int result = SSL_write_ex(ssl_, data, size, &count);
  return outcome_of(result, count);
}

void TlsSession::send_close() {
  if (broken_ || SSL_in_init(ssl_) != 0) return;
  forget_errors();
  // No answer is waited for, and none is owed: 0 means sent, an error that there is nobody to send it to.
  if (SSL_shutdown(ssl_) < 0) ERR_clear_error();
}

bool TlsSession::has_pending() const {
  // Not SSL_has_pending(): it also counts half a record, whose rest must be waited for. What is held of the
  // wire may be half a record too, but a read that finds it so has taken all of it.
  return !broken_ && (SSL_pending(ssl_) > 0 || wire_->held() > 0);
}

bool TlsSession::is_resumed() const {
  return SSL_session_reused(ssl_) == 1;
}

std::optional<ClientCertificate> TlsSession::peer_certificate() const {
  const X509Ptr certificate(SSL_get1_peer_certificate(ssl_));
  if (!certificate) return std::nullopt;
  ClientCertificate out;
  auto names = subject_entries(certificate.get(), NID_commonName);
  // Two CNs would leave open which one is the user.
  if (names.size() == 1) out.common_name = std::move(names.front());
  out.organizations = subject_entries(certificate.get(), NID_organizationName);
  long verify = SSL_get_verify_result(ssl_);
  // A ticket remembers what was found when it was given; a certificate may have ended since.
  if (verify == X509_V_OK && is_resumed() && X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0)
    verify = X509_V_ERR_CERT_HAS_EXPIRED;
  out.verified = verify == X509_V_OK && !out.common_name.empty();
  if (!out.verified)
    out.problem =
        verify == X509_V_OK ? "the subject has not exactly one CN" : X509_verify_cert_error_string(verify);
  return out;
}

Error TlsSession::error() const {
  return make_error(identity_problem_ ? Errc::unauthorized : Errc::unavailable, "TLS: " + problem_);
}

}  // namespace moor::http
