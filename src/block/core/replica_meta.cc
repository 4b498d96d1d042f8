#include "block/core/replica_meta.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "block/core/crc32c.h"

namespace moor::block {
namespace {

constexpr char kMagic[8] = {'M', 'O', 'O', 'R', 'V', 'O', 'L', '\n'};
constexpr std::size_t kHeaderBytes = 8 + 4 + 4 + 4;
constexpr std::size_t kMaxText = 1u << 16;
constexpr std::size_t kLabelLimit = 1024;

class Writer {
 public:
  void number(std::uint64_t value) { raw(&value, sizeof value); }
  void flag(bool value) { number(value ? 1 : 0); }
  void text(std::string_view value) {
    number(value.size());
    raw(value.data(), value.size());
  }
  void raw(const void* data, std::size_t size) {
    const auto* at = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), at, at + size);
  }
  std::vector<std::byte> bytes;
};

// Reads what Writer wrote. After the first mistake every read gives nothing and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (!take(&value, sizeof value)) return 0;
    return value;
  }
  bool flag() {
    const std::uint64_t value = number();
    if (value > 1) ok_ = false;
    return value == 1;
  }
  std::string text() {
    const std::uint64_t size = number();
    if (size > kMaxText || size > left_.size()) {
      ok_ = false;
      return {};
    }
    std::string value(size, '\0');
    take(value.data(), size);
    return value;
  }
  std::uint64_t count(std::uint64_t limit) {
    const std::uint64_t value = number();
    if (value > limit) ok_ = false;
    return ok_ ? value : 0;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return left_.empty(); }

 private:
  bool take(void* into, std::size_t size) {
    if (!ok_ || left_.size() < size) {
      ok_ = false;
      return false;
    }
    std::memcpy(into, left_.data(), size);
    left_ = left_.subspan(size);
    return true;
  }
  std::span<const std::byte> left_;
  bool ok_ = true;
};

void write_layer(Writer& out, const LayerRecord& record) {
  out.number(record.file);
  out.number(record.parent);
  out.number(record.map_crc);
  out.text(record.layer.id);
  out.text(record.layer.snapshot);
  out.text(record.layer.created);
  out.number(record.layer.labels.size());
  for (const auto& [key, value] : record.layer.labels) {
    out.text(key);
    out.text(value);
  }
  out.flag(record.layer.removed);
  out.flag(record.layer.user_created);
  out.flag(record.layer.summed);
  out.number(record.layer.used_bytes);
}

LayerRecord read_layer(Reader& in) {
  LayerRecord record;
  record.file = in.number();
  record.parent = in.number();
  record.map_crc = static_cast<std::uint32_t>(in.number());
  record.layer.id = in.text();
  record.layer.snapshot = in.text();
  record.layer.created = in.text();
  const std::uint64_t labels = in.count(kLabelLimit);
  for (std::uint64_t i = 0; i < labels && in.ok(); ++i) {
    std::string key = in.text();
    record.layer.labels[std::move(key)] = in.text();
  }
  record.layer.removed = in.flag();
  record.layer.user_created = in.flag();
  record.layer.summed = in.flag();
  record.layer.used_bytes = in.number();
  return record;
}

ReplicaMeta read_body(Reader& in) {
  ReplicaMeta meta;
  meta.volume = in.text();
  meta.token = in.text();
  meta.size = in.number();
  meta.floor.epoch = in.number();
  meta.floor.engine = in.text();
  meta.floor.session = in.number();
  meta.generation = in.number();
  meta.wrote = in.number();
  meta.clean = in.flag();
  meta.rebuilding = in.flag();
  meta.next_file = in.number();
  meta.head_file = in.number();
  meta.head_parent = in.number();
  meta.head_map_crc = static_cast<std::uint32_t>(in.number());
  meta.head_id = in.text();
  const std::uint64_t layers = in.count(kMaxSnapshots);
  for (std::uint64_t i = 0; i < layers && in.ok(); ++i) meta.layers.push_back(read_layer(in));
  if (in.flag()) {
    PurgeRecord purge;
    purge.layer = in.number();
    purge.child = in.number();
    purge.new_id = in.text();
    meta.purge = purge;
  }
  return meta;
}

// What the rest of the replica relies on; a record with a good checksum that breaks it was written by a bug.
bool is_sound(const ReplicaMeta& meta) {
  if (meta.size == 0 || meta.size % kBlockSize != 0 || meta.size > kMaxVolumeBytes) return false;
  std::set<LayerFile> seen;
  for (const LayerRecord& record : meta.layers) {
    if (record.file == 0 || record.file >= meta.next_file) return false;
    if (record.parent != 0 && !seen.contains(record.parent)) return false;
    if (!seen.insert(record.file).second) return false;
  }
  if (meta.head_file == 0 || meta.head_file >= meta.next_file || seen.contains(meta.head_file)) return false;
  if (meta.head_parent != 0 && !seen.contains(meta.head_parent)) return false;
  if (meta.purge) {
    if (!seen.contains(meta.purge->layer)) return false;
    if (meta.children_of(meta.purge->layer) != std::vector<LayerFile>{meta.purge->child}) return false;
  }
  return true;
}

}  // namespace

std::string data_name(LayerFile file) {
  return fmt::format("layer.{}.data", file);
}
std::string map_name(LayerFile file) {
  return fmt::format("layer.{}.map", file);
}
std::string sum_name(LayerFile file) {
  return fmt::format("layer.{}.sum", file);
}

std::optional<LayerFile> layer_file_of(std::string_view name) {
  constexpr std::string_view kPrefix = "layer.";
  if (!name.starts_with(kPrefix)) return {};
  LayerFile file = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, file);
  const std::string_view rest(stop, static_cast<std::size_t>(end - stop));
  if (error != std::errc{} || (rest != ".data" && rest != ".map" && rest != ".sum")) return {};
  return file;
}

const LayerRecord* ReplicaMeta::by_file(LayerFile file) const {
  const auto found = std::ranges::find(layers, file, &LayerRecord::file);
  return found == layers.end() ? nullptr : &*found;
}

LayerRecord* ReplicaMeta::by_file(LayerFile file) {
  return const_cast<LayerRecord*>(std::as_const(*this).by_file(file));
}

const LayerRecord* ReplicaMeta::by_snapshot(std::string_view name) const {
  for (const LayerRecord& record : layers) {
    if (record.layer.snapshot == name) return &record;
  }
  return nullptr;
}

std::vector<LayerFile> ReplicaMeta::path() const {
  std::vector<LayerFile> files;
  for (LayerFile at = head_parent; at != 0; at = by_file(at)->parent) files.push_back(at);
  return files;
}

std::vector<LayerFile> ReplicaMeta::children_of(LayerFile file) const {
  std::vector<LayerFile> children;
  for (const LayerRecord& record : layers) {
    if (record.parent == file) children.push_back(record.file);
  }
  if (head_parent == file) children.push_back(head_file);
  return children;
}

std::vector<Layer> ReplicaMeta::chain() const {
  std::vector<Layer> result;
  for (const LayerRecord& record : layers) {
    result.push_back(record.layer);
    if (record.parent != 0) result.back().parent = by_file(record.parent)->layer.id;
  }
  return result;
}

std::vector<std::byte> encode_meta(const ReplicaMeta& meta) {
  MOOR_ASSERT(is_sound(meta), "about to write metadata that contradicts itself");
  Writer body;
  body.text(meta.volume);
  body.text(meta.token);
  body.number(meta.size);
  body.number(meta.floor.epoch);
  body.text(meta.floor.engine);
  body.number(meta.floor.session);
  body.number(meta.generation);
  body.number(meta.wrote);
  body.flag(meta.clean);
  body.flag(meta.rebuilding);
  body.number(meta.next_file);
  body.number(meta.head_file);
  body.number(meta.head_parent);
  body.number(meta.head_map_crc);
  body.text(meta.head_id);
  body.number(meta.layers.size());
  for (const LayerRecord& record : meta.layers) write_layer(body, record);
  body.flag(meta.purge.has_value());
  if (meta.purge) {
    body.number(meta.purge->layer);
    body.number(meta.purge->child);
    body.text(meta.purge->new_id);
  }
  Writer out;
  const auto length = static_cast<std::uint32_t>(body.bytes.size());
  out.raw(kMagic, sizeof kMagic);
  out.raw(&kMetaFormat, 4);
  out.raw(&length, 4);
  const std::uint32_t crc = crc32c(body.bytes, crc32c(out.bytes));
  out.raw(&crc, 4);
  out.raw(body.bytes.data(), body.bytes.size());
  return std::move(out.bytes);
}

Result<ReplicaMeta> decode_meta(std::span<const std::byte> bytes) {
  const auto damaged = [](std::string_view why) {
    return make_error(Errc::corrupt, fmt::format("{} is damaged: {}", kMetaName, why));
  };
  if (bytes.size() < kHeaderBytes) return damaged("too short");
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return damaged("it does not begin as it should");
  std::uint32_t format = 0;
  std::uint32_t length = 0;
  std::uint32_t crc = 0;
  std::memcpy(&format, bytes.data() + 8, 4);
  std::memcpy(&length, bytes.data() + 12, 4);
  std::memcpy(&crc, bytes.data() + 16, 4);
  const auto body = bytes.subspan(kHeaderBytes);
  if (format > kMetaFormat) {
    return make_error(Errc::unsupported,
                      fmt::format("{} has format {}, this program knows up to {}: use a newer one", kMetaName,
                                  format, kMetaFormat));
  }
  if (body.size() != length) return damaged("its length is wrong");
  if (crc32c(body, crc32c(bytes.first(16))) != crc) return damaged("its checksum is wrong");
  if (format != kMetaFormat) return damaged("its format number is wrong");
  Reader in(body);
  ReplicaMeta meta = read_body(in);
  if (!in.ok() || !in.at_end()) return damaged("a field is out of bounds");
  if (!is_sound(meta)) return damaged("it contradicts itself");
  return meta;
}

Task<Result<void>> MetaStore::load() {
  const std::string name(kMetaName);
  CO_TRY(const std::vector<std::byte> bytes, co_await files_.read_all(name, kMaxMetaBytes));
  CO_TRY(meta_, decode_meta(bytes));
  co_return Result<void>{};
}

Task<Result<void>> MetaStore::commit(std::function<Result<void>(ReplicaMeta&)> change) {
  AsyncMutex::Hold hold(mutex_);
  co_await hold;
  ReplicaMeta next = meta_;
  CO_TRY_VOID(change(next));
  if (next == meta_) co_return Result<void>{};
  const std::vector<std::byte> bytes = encode_meta(next);
  const std::string name(kMetaName);
  CO_TRY_VOID(co_await files_.replace(name, bytes));
  meta_ = std::move(next);
  co_return Result<void>{};
}

}  // namespace moor::block
