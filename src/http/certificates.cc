#include "http/certificates.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>
#include <string_view>

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
using NamePtr = std::unique_ptr<X509_NAME, Deleter<X509_NAME_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, Deleter<X509_REQ_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, Deleter<BN_free>>;

Error failure(std::string what, Errc code = Errc::internal) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return make_error(code, std::move(what) + ": " + text.data());
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Result<X509Ptr> read_certificate(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) return failure("read a certificate", Errc::invalid);
  return certificate;
}

Result<KeyPtr> read_key(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key) return failure("read a private key", Errc::invalid);
  return key;
}

Result<RequestPtr> read_request(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  RequestPtr request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  if (!request) return failure("read a certificate request", Errc::invalid);
  return request;
}

std::string in_hexadecimal(const unsigned char* bytes, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

Result<Identity> to_pem(X509* certificate, EVP_PKEY* key) {
  const BioPtr certificate_bio(BIO_new(BIO_s_mem()));
  const BioPtr key_bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_bio.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failure("write PEM");
  return Identity{text_of(certificate_bio.get()), text_of(key_bio.get())};
}

Result<void> set_serial(X509* certificate) {
  // 126 random bits: unique without a counter that a crash could turn back.
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return failure("random serial number");
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x3f) | 0x40);  // positive, and always 16 bytes long
  const NumberPtr number(BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  if (!number || BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr)
    return failure("set the serial number");
  return {};
}

Result<void> set_subject(X509* certificate, const std::string& common_name,
                         const std::vector<std::string>& organizations) {
  const NamePtr name(X509_NAME_new());
  const auto add = [&name](const char* field, const std::string& value) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(value.data());
    return X509_NAME_add_entry_by_txt(name.get(), field, MBSTRING_UTF8, bytes, static_cast<int>(value.size()),
                                      -1, 0) == 1;
  };
  for (const auto& organization : organizations) {
    if (!add("O", organization)) return failure("organization " + organization, Errc::invalid);
  }
  if (!add("CN", common_name)) return failure("common name " + common_name, Errc::invalid);
  if (X509_set_subject_name(certificate, name.get()) != 1) return failure("set the subject");
  return {};
}

Result<void> set_validity(X509* certificate, Validity validity) {
  using std::chrono::duration_cast;
  using std::chrono::seconds;
  const auto from = static_cast<time_t>(duration_cast<seconds>(validity.not_before.since_epoch).count());
  const auto until = static_cast<time_t>(duration_cast<seconds>(validity.not_after.since_epoch).count());
  if (until <= from) return make_error(Errc::invalid, "a certificate must end after it begins");
  if (ASN1_TIME_set(X509_getm_notBefore(certificate), from) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate), until) == nullptr)
    return failure("set the validity");
  return {};
}

Result<void> add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return failure("extension " + value, Errc::invalid);
  const int added = X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  if (added != 1) return failure("add extension " + value);
  return {};
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 253) return false;
  for (const char c : text) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '.' || c == '*' || c == '_';
    if (!fine) return false;
  }
  return true;
}

Result<std::string> alternative_names(const CertificateRequest& request) {
  std::string out;
  // OpenSSL's little language would read a comma in a name as the next name: only plain ones pass.
  for (const auto& name : request.dns_names) {
    if (!is_name(name)) return make_error(Errc::invalid, "not a DNS name: " + name);
    out += (out.empty() ? "DNS:" : ",DNS:") + name;
  }
  for (const auto& address : request.ip_addresses) {
    std::array<unsigned char, 16> bytes{};
    if (inet_pton(AF_INET, address.c_str(), bytes.data()) != 1 &&
        inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1)
      return make_error(Errc::invalid, "not an IP address: " + address);
    out += (out.empty() ? "IP:" : ",IP:") + address;
  }
  return out;
}

struct Blank {
  X509Ptr certificate;
  KeyPtr key;
};

Result<Blank> new_certificate(const std::string& common_name, const std::vector<std::string>& organizations,
                              Validity validity) {
  Blank blank{X509Ptr(X509_new()), KeyPtr(EVP_EC_gen("P-256"))};
  if (!blank.certificate || !blank.key) return failure("make a key");
  X509* certificate = blank.certificate.get();
  if (X509_set_version(certificate, X509_VERSION_3) != 1 ||
      X509_set_pubkey(certificate, blank.key.get()) != 1)
    return failure("make a certificate");
  TRY_VOID(set_serial(certificate));
  TRY_VOID(set_subject(certificate, common_name, organizations));
  TRY_VOID(set_validity(certificate, validity));
  return blank;
}

Result<Identity> sign(Blank blank, EVP_PKEY* with) {
  if (X509_sign(blank.certificate.get(), with, EVP_sha256()) == 0) return failure("sign a certificate");
  return to_pem(blank.certificate.get(), blank.key.get());
}

// Everything but subject, key and validity.
Result<void> fill_in(X509* certificate, X509* issuer, const CertificateRequest& request) {
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  const bool server = request.use == CertificateUse::server;
  TRY_VOID(add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE"));
  TRY_VOID(add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature"));
  TRY_VOID(add_extension(certificate, issuer, NID_ext_key_usage, server ? "serverAuth" : "clientAuth"));
  TRY_VOID(add_extension(certificate, issuer, NID_subject_key_identifier, "hash"));
  TRY_VOID(add_extension(certificate, issuer, NID_authority_key_identifier, "keyid"));
  TRY(const auto names, alternative_names(request));
  if (!names.empty()) TRY_VOID(add_extension(certificate, issuer, NID_subject_alt_name, names));
  return {};
}

WallTime from_asn1(const ASN1_TIME* time) {
  std::tm parts{};
  ASN1_TIME_to_tm(time, &parts);
  return {std::chrono::seconds(timegm(&parts))};
}

std::vector<std::string> subject_fields(X509* certificate, int nid) {
  std::vector<std::string> values;
  const X509_NAME* subject = X509_get_subject_name(certificate);
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, nid, at)) >= 0;) {
    unsigned char* text = nullptr;
    const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (size >= 0) values.emplace_back(reinterpret_cast<char*>(text), static_cast<std::size_t>(size));
    OPENSSL_free(text);
  }
  return values;
}

void read_alternative_names(X509* certificate, CertificateInfo& info) {
  auto* names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) {
      const auto* data = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
      info.dns_names.emplace_back(data, static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const int size = ASN1_STRING_length(name->d.iPAddress);
      std::array<char, INET6_ADDRSTRLEN> text{};
      inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), text.data(),
                text.size());
      info.ip_addresses.emplace_back(text.data());
    }
  }
  GENERAL_NAMES_free(names);
}

}  // namespace

Validity Validity::days_from(WallTime now, int days) {
  return {{now.since_epoch - std::chrono::hours(1)}, {now.since_epoch + std::chrono::hours(24) * days}};
}

Result<Identity> make_authority(const std::string& common_name, Validity validity) {
  TRY(auto blank, new_certificate(common_name, {}, validity));
  X509* certificate = blank.certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  TRY_VOID(add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  TRY_VOID(add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign"));
  TRY_VOID(add_extension(certificate, certificate, NID_subject_key_identifier, "hash"));
  EVP_PKEY* key = blank.key.get();
  return sign(std::move(blank), key);
}

Result<Identity> issue_certificate(const Identity& authority, const CertificateRequest& request) {
  TRY(const auto issuer, read_certificate(authority.certificate_pem));
  TRY(const auto issuer_key, read_key(authority.key_pem));
  if (X509_check_private_key(issuer.get(), issuer_key.get()) != 1)
    return failure("the authority's key does not belong to its certificate", Errc::invalid);
  TRY(auto blank, new_certificate(request.common_name, request.organizations, request.validity));
  TRY_VOID(fill_in(blank.certificate.get(), issuer.get(), request));
  return sign(std::move(blank), issuer_key.get());
}

Result<std::string> make_key() {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!key || PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failure("make a key");
  return text_of(bio.get());
}

Result<std::string> make_certificate_request(const std::string& key_pem, const std::string& common_name) {
  TRY(const auto key, read_key(key_pem));
  const RequestPtr request(X509_REQ_new());
  const NamePtr name(X509_NAME_new());
  const auto* bytes = reinterpret_cast<const unsigned char*>(common_name.data());
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (X509_NAME_add_entry_by_txt(name.get(), "CN", MBSTRING_UTF8, bytes, static_cast<int>(common_name.size()),
                                 -1, 0) != 1)
    return failure("common name " + common_name, Errc::invalid);
  if (X509_REQ_set_subject_name(request.get(), name.get()) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0 ||
      PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1)
    return failure("make a certificate request");
  return text_of(bio.get());
}

Result<std::string> certify(const Identity& authority, const std::string& request_pem,
                            const CertificateRequest& wanted) {
  TRY(const auto issuer, read_certificate(authority.certificate_pem));
  TRY(const auto issuer_key, read_key(authority.key_pem));
  TRY(const auto request, read_request(request_pem));
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr || X509_REQ_verify(request.get(), key) != 1)
    return failure("the request is not signed with its own key", Errc::invalid);
  TRY(const auto blank, new_certificate(wanted.common_name, wanted.organizations, wanted.validity));
  X509* certificate = blank.certificate.get();
  if (X509_set_pubkey(certificate, key) != 1) return failure("take over the key", Errc::invalid);
  TRY_VOID(fill_in(certificate, issuer.get(), wanted));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (X509_sign(certificate, issuer_key.get(), EVP_sha256()) == 0 ||
      PEM_write_bio_X509(bio.get(), certificate) != 1)
    return failure("sign a certificate");
  return text_of(bio.get());
}

Result<std::string> fingerprint_of_request_key(const std::string& request_pem) {
  TRY(const auto request, read_request(request_pem));
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(X509_REQ_get_X509_PUBKEY(request.get()), &der);
  if (size <= 0) return failure("read the key of a request", Errc::invalid);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  const int done =
      EVP_Digest(der, static_cast<std::size_t>(size), digest.data(), &length, EVP_sha256(), nullptr);
  OPENSSL_free(der);
  if (done != 1) return failure("digest of a key");
  return in_hexadecimal(digest.data(), length);
}

Result<std::string> fingerprint_of_certificate(const std::string& certificate_pem) {
  TRY(const auto certificate, read_certificate(certificate_pem));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (X509_digest(certificate.get(), EVP_sha256(), digest.data(), &length) != 1)
    return failure("digest of a certificate");
  return in_hexadecimal(digest.data(), length);
}

Result<CertificateInfo> describe_certificate(const std::string& certificate_pem) {
  TRY(const auto certificate, read_certificate(certificate_pem));
  CertificateInfo info;
  auto names = subject_fields(certificate.get(), NID_commonName);
  if (!names.empty()) info.common_name = std::move(names.front());
  info.organizations = subject_fields(certificate.get(), NID_organizationName);
  read_alternative_names(certificate.get(), info);
  const NumberPtr serial(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr));
  char* text = BN_bn2hex(serial.get());
  info.serial = text;
  OPENSSL_free(text);
  info.validity.not_before = from_asn1(X509_get0_notBefore(certificate.get()));
  info.validity.not_after = from_asn1(X509_get0_notAfter(certificate.get()));
  info.is_authority = X509_check_ca(certificate.get()) == 1;
  return info;
}

Result<void> check_identity(const Identity& identity, const std::string& authority_pem) {
  TRY(const auto certificate, read_certificate(identity.certificate_pem));
  TRY(const auto key, read_key(identity.key_pem));
  TRY(const auto authority, read_certificate(authority_pem));
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return failure("the key does not belong to the certificate", Errc::invalid);
  if (X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) != 1)
    return failure("the certificate is not signed by the authority", Errc::invalid);
  return {};
}

Result<void> save_identity(const Identity& identity, const IdentityFiles& files) {
  TRY_VOID(write_file_atomically(files.key_path, identity.key_pem, 0600));
  return write_file_atomically(files.certificate_path, identity.certificate_pem, 0644);
}

Result<Identity> load_identity(const IdentityFiles& files) {
  Identity identity;
  TRY(identity.certificate_pem, read_small_file(files.certificate_path));
  TRY(identity.key_pem, read_small_file(files.key_path));
  return identity;
}

}  // namespace moor::http
