#include "http/message.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moor::http {
namespace {

constexpr std::array<std::pair<std::string_view, Method>, 7> kMethods = {{
    {"GET", Method::get},
    {"HEAD", Method::head},
    {"POST", Method::post},
    {"PUT", Method::put},
    {"PATCH", Method::patch},
    {"DELETE", Method::delete_},
    {"OPTIONS", Method::options},
}};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// RFC 9110 5.6.2
constexpr std::array<bool, 256> token_table() {
  std::array<bool, 256> table{};
  for (int c = 'a'; c <= 'z'; ++c) table[c] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = true;
  for (int c = '0'; c <= '9'; ++c) table[c] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<unsigned char>(c)] = true;
  return table;
}
constexpr auto kToken = token_table();

class FunctionStream final : public StreamBody {
 public:
  explicit FunctionStream(std::function<Task<Result<void>>(StreamWriter&)> run) : run_(std::move(run)) {}
  Task<Result<void>> run(StreamWriter& writer) override { return run_(writer); }

 private:
  std::function<Task<Result<void>>(StreamWriter&)> run_;
};

}  // namespace

std::string_view to_string(Method method) {
  return kMethods[static_cast<std::size_t>(method)].first;
}

std::optional<Method> parse_method(std::string_view text) {
  for (const auto& [name, method] : kMethods) {
    if (name == text) return method;
  }
  return std::nullopt;
}

bool is_idempotent(Method method) {
  return method != Method::post && method != Method::patch;
}

bool equal_ignoring_case(std::string_view left, std::string_view right) {
  return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin(),
                                                   [](char a, char b) { return lower(a) == lower(b); });
}

bool is_header_name(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return kToken[static_cast<unsigned char>(c)]; });
}

bool is_header_value(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
}

void Headers::set(std::string_view name, std::string value) {
  remove(name);
  add(std::string(name), std::move(value));
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [name](const Field& field) { return equal_ignoring_case(field.name, name); });
}

std::optional<std::string_view> Headers::get(std::string_view name) const {
  for (const auto& field : fields_) {
    if (equal_ignoring_case(field.name, name)) return field.value;
  }
  return std::nullopt;
}

std::vector<std::string_view> Headers::get_all(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto& field : fields_) {
    if (equal_ignoring_case(field.name, name)) values.push_back(field.value);
  }
  return values;
}

std::size_t Headers::count(std::string_view name) const {
  return static_cast<std::size_t>(std::count_if(fields_.begin(), fields_.end(), [name](const Field& field) {
    return equal_ignoring_case(field.name, name);
  }));
}

bool Headers::has_token(std::string_view name, std::string_view token) const {
  for (const auto& field : fields_) {
    if (!equal_ignoring_case(field.name, name)) continue;
    std::string_view rest = field.value;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      std::string_view item = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      while (item.starts_with(' ') || item.starts_with('\t')) item.remove_prefix(1);
      while (item.ends_with(' ') || item.ends_with('\t')) item.remove_suffix(1);
      if (equal_ignoring_case(item, token)) return true;
    }
  }
  return false;
}

Request Request::to(Method method, std::string raw_target, std::string body, std::string_view content_type) {
  Request request;
  request.method = method;
  request.target.path_size = std::min(raw_target.find('?'), raw_target.size());
  request.target.raw = std::move(raw_target);
  request.body = std::move(body);
  if (!content_type.empty()) request.headers.add("Content-Type", std::string(content_type));
  return request;
}

Response Response::text(int status, std::string body, std::string_view content_type) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", std::string(content_type));
  response.body = std::move(body);
  return response;
}

Response Response::streaming(int status, std::string_view content_type, std::unique_ptr<StreamBody> stream) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", std::string(content_type));
  response.stream = std::move(stream);
  return response;
}

std::unique_ptr<StreamBody> make_stream(std::function<Task<Result<void>>(StreamWriter&)> run) {
  return std::make_unique<FunctionStream>(std::move(run));
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Entity";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

}  // namespace moor::http
