#include "model/scalars.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace moor::model {
namespace {

bool wrong_type(std::string_view wanted, const Json& json, DecodeFailure& failure) {
  failure.message = fmt::format("must be of type {}, not {}", wanted, type_name(json));
  return false;
}

bool decode_string(void* value, const Json& json, DecodeFailure& failure) {
  if (json.is_null()) return true;
  if (!json.is_string()) return wrong_type("string", json, failure);
  *static_cast<std::string*>(value) = json.as_string();
  return true;
}

void encode_string(const void* value, Json& json) {
  json = *static_cast<const std::string*>(value);
}

bool is_empty_string(const void* value) {
  return static_cast<const std::string*>(value)->empty();
}

template <class Int>
bool decode_integer(void* value, const Json& json, DecodeFailure& failure) {
  if (json.is_null()) return true;
  const auto number = json.to_int64();
  if (!number) return wrong_type("integer", json, failure);
  if (*number < std::numeric_limits<Int>::min() || *number > std::numeric_limits<Int>::max()) {
    failure.message = fmt::format("{} does not fit", *number);
    return false;
  }
  *static_cast<Int*>(value) = static_cast<Int>(*number);
  return true;
}

template <class Int>
void encode_integer(const void* value, Json& json) {
  json = *static_cast<const Int*>(value);
}

template <class T>
bool is_default(const void* value) {
  return *static_cast<const T*>(value) == T{};
}

bool decode_string_int64(void* value, const Json& json, DecodeFailure& failure) {
  if (json.is_null()) return true;
  std::optional<std::int64_t> number;
  if (json.is_string())
    number = json.as_string().empty() ? 0 : parse_int64(json.as_string());
  else
    number = json.to_int64();
  if (!number) {
    failure.message = "must be a string that holds a whole number";
    return false;
  }
  *static_cast<std::int64_t*>(value) = *number;
  return true;
}

void encode_string_int64(const void* value, Json& json) {
  json = fmt::format("{}", *static_cast<const std::int64_t*>(value));
}

bool decode_time_text(const Json& json, Time& time, DecodeFailure& failure) {
  if (!json.is_string()) return wrong_type("string", json, failure);
  const auto parsed = parse_rfc3339(json.as_string());
  if (!parsed) {
    failure.message = fmt::format("\"{}\" is no RFC 3339 time", json.as_string());
    return false;
  }
  time = *parsed;
  return true;
}

// Text that already says this moment stays as it is, whatever its precision or offset.
bool says(const Json& json, Time time) {
  return json.is_string() && parse_rfc3339(json.as_string()) == time;
}

Codec scalar(SchemaType type, Format format) {
  Codec codec;
  codec.schema.type = type;
  codec.schema.format = format;
  return codec;
}

}  // namespace

std::optional<std::int64_t> parse_int64(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return value;
}

const Codec& codec_for(const std::string*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::string, Format::none);
    c.decode = decode_string, c.encode = encode_string, c.is_zero = is_empty_string;
    return c;
  }();
  return codec;
}

const Codec& duration_codec() {
  static const Codec codec = [] {
    Codec c = codec_for(static_cast<const std::string*>(nullptr));
    c.schema.format = Format::duration;
    return c;
  }();
  return codec;
}

const Codec& codec_for(const bool*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::boolean, Format::none);
    c.decode = [](void* value, const Json& json, DecodeFailure& failure) {
      if (json.is_null()) return true;
      if (!json.is_bool()) return wrong_type("boolean", json, failure);
      *static_cast<bool*>(value) = json.as_bool();
      return true;
    };
    c.encode = [](const void* value, Json& json) { json = *static_cast<const bool*>(value); };
    c.is_zero = is_default<bool>;
    return c;
  }();
  return codec;
}

const Codec& codec_for(const std::int32_t*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::integer, Format::int32);
    c.decode = decode_integer<std::int32_t>, c.encode = encode_integer<std::int32_t>;
    c.is_zero = is_default<std::int32_t>;
    return c;
  }();
  return codec;
}

const Codec& codec_for(const std::int64_t*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::integer, Format::int64);
    c.decode = decode_integer<std::int64_t>, c.encode = encode_integer<std::int64_t>;
    c.is_zero = is_default<std::int64_t>;
    return c;
  }();
  return codec;
}

const Codec& string_int64_codec() {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::string, Format::int64_string);
    c.decode = decode_string_int64, c.encode = encode_string_int64, c.is_zero = is_default<std::int64_t>;
    return c;
  }();
  return codec;
}

const Codec& codec_for(const double*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::number, Format::floating);
    c.decode = [](void* value, const Json& json, DecodeFailure& failure) {
      if (json.is_null()) return true;
      if (!json.is_number()) return wrong_type("number", json, failure);
      *static_cast<double*>(value) = json.as_double();
      return true;
    };
    c.encode = [](const void* value, Json& json) { json = *static_cast<const double*>(value); };
    c.is_zero = is_default<double>;
    return c;
  }();
  return codec;
}

const Codec& codec_for(const Time*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::string, Format::date_time);
    c.decode = [](void* value, const Json& json, DecodeFailure& failure) {
      return json.is_null() || decode_time_text(json, *static_cast<Time*>(value), failure);
    };
    c.encode = [](const void* value, Json& json) {
      const Time time = *static_cast<const Time*>(value);
      if (!says(json, time)) json = format_rfc3339(time);
    };
    c.is_zero = is_default<Time>;
    return c;
  }();
  return codec;
}

const Codec& codec_for(const MicroTime*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::string, Format::micro_time);
    c.decode = [](void* value, const Json& json, DecodeFailure& failure) {
      return json.is_null() || decode_time_text(json, static_cast<MicroTime*>(value)->at, failure);
    };
    c.encode = [](const void* value, Json& json) {
      const Time time = static_cast<const MicroTime*>(value)->at;
      if (!says(json, time)) json = format_rfc3339_micro(time);
    };
    c.is_zero = is_default<MicroTime>;
    return c;
  }();
  return codec;
}

const Codec& codec_for(const Quantity*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::string, Format::quantity);
    c.decode = [](void* value, const Json& json, DecodeFailure& failure) {
      if (json.is_null()) return true;
      std::string text = json.is_string() ? std::string(json.as_string()) : to_text(json);
      if (!(json.is_string() || json.is_number()) || !is_quantity(text)) {
        failure.message = fmt::format("{} is no quantity", text);
        return false;
      }
      static_cast<Quantity*>(value)->text = std::move(text);
      return true;
    };
    c.encode = [](const void* value, Json& json) { json = static_cast<const Quantity*>(value)->text; };
    c.is_zero = is_default<Quantity>;
    return c;
  }();
  return codec;
}

const Codec& codec_for(const Json*) {
  static const Codec codec = [] {
    Codec c = scalar(SchemaType::any, Format::none);
    c.decode = [](void* value, const Json& json, DecodeFailure&) {
      *static_cast<Json*>(value) = json;
      return true;
    };
    c.encode = [](const void* value, Json& json) { json = *static_cast<const Json*>(value); };
    c.is_zero = [](const void* value) { return static_cast<const Json*>(value)->is_null(); };
    c.absent_when_zero = true;
    return c;
  }();
  return codec;
}

}  // namespace moor::model
