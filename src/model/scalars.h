// The codecs of the plain types that fields are made of. Each has one instance for the whole process.
#pragma once

#include <cstdint>
#include <string>

#include "model/codec.h"
#include "model/quantity.h"
#include "model/time.h"

namespace moor::model {

const Codec& codec_for(const std::string*);
const Codec& codec_for(const bool*);
const Codec& codec_for(const std::int32_t*);
const Codec& codec_for(const std::int64_t*);
const Codec& codec_for(const double*);
const Codec& codec_for(const Time*);
const Codec& codec_for(const MicroTime*);
const Codec& codec_for(const Quantity*);
const Codec& codec_for(const Json*);  // free-form

// An int64 that travels as a decimal string, as sizes do in Longhorn's specs ("size": "1073741824"). A JSON
// number is read as well: people write it in YAML without quotes, and defaulting turns it into the string
// before it is stored.
const Codec& string_int64_codec();
// A std::string that holds a Go duration ("5m0s").
const Codec& duration_codec();

std::optional<std::int64_t> parse_int64(std::string_view text);

}  // namespace moor::model
