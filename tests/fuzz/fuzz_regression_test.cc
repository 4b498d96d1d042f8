// The fuzz entry functions in every test run: over the inputs kept in corpus/, over well-formed streams, and
// over those with random damage. The long search is libFuzzer's.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "block/core/nbd_test_support.h"
#include "block/core/peer_wire.h"
#include "entries.h"

namespace moor::block::fuzz {
namespace {

using Entry = void (*)(Input);
using namespace nbd::testing;  // NOLINT: the messages read like the protocol
using nbd::Command;
using nbd::Option;
using nbd::OptionReply;

struct Target {
  const char* name;
  Entry entry;
  std::vector<std::string> seeds;
};

std::string frame(const std::string& text) {
  return u32(text.size()) + text;
}

std::vector<std::string> server_seeds() {
  const std::string start = u32(3) + option(Option::structured_reply) +
                            option(Option::set_meta_context, context_body("p", {nbd::kAllocationContext}));
  const std::string requests =
      raw({number(Command::write), 1, 4096, 600, 1, std::string(600, 'w')}) +
      raw({number(Command::read), 2, 1, 4096}) + raw({number(Command::flush), 3, 0, 0}) +
      raw({number(Command::block_status), 4, 0, 8192}) + raw({number(Command::write_zeroes), 5, 0, 4096, 2}) +
      raw({0x8008, 6, 0, 5, 0, "hello"}) + raw({number(Command::disconnect), 7, 0, 0});
  return {start + option(Option::go, go_body("p")) + requests,
          u32(1) + option(Option::list) + option(Option::info, go_body("x")) +
              option(Option::export_name, "r") + requests,
          u32(3) + option(Option::start_tls) + option(Option::go, go_body("x")) + requests};
}

std::vector<std::string> client_seeds() {
  std::string stream =
      u64(nbd::kServerMagic) + u64(nbd::kOptionMagic) + u16(3) +
      option_reply(Option::structured_reply, OptionReply::ack) +
      option_reply(Option::set_meta_context, OptionReply::meta_context, u32(1) + nbd::kAllocationContext) +
      option_reply(Option::set_meta_context, OptionReply::ack) +
      option_reply(Option::go, OptionReply::info, u16(0) + u64(1 << 20) + u16(1)) +
      option_reply(Option::go, OptionReply::info, u16(0x8001) + "answer") +
      option_reply(Option::go, OptionReply::ack);
  const auto cookie = [](std::uint64_t slot) { return (std::uint64_t{1} << 32) | slot; };
  stream += chunk(0, 1, cookie(0), u64(0) + std::string(32, 'd')) +
            chunk(1, 2, cookie(0), u64(32) + u32(32)) + simple(0, cookie(1)) + simple(5, cookie(2)) +
            chunk(1, 5, cookie(3), u32(1) + u32(64) + u32(0)) + chunk(1, 0x4001, cookie(4), "body") +
            chunk(1, 0x8001, cookie(5), u32(5) + u16(2) + "no") +
            chunk(1, 0x8001, ~0ull, u32(108) + u16(3) + "bye");
  return {stream};
}

std::vector<std::string> peer_seeds() {
  HelloAnswer answer;
  answer.dirty = {1, 2, 3, 9};
  answer.chain.push_back({"id", "snap", "parent", "2026", {{"k", "v"}}, true, false, true, 5});
  BufferPool pool;
  PeerRequest create;
  create.op = PeerOp::snapshot_create;
  create.snapshot = {"name", "layer", "head", "2026", {{"k", "v"}}, true, 4};
  PeerRequest clear;
  clear.op = PeerOp::clear_dirty;
  clear.regions = {4, 5, 6, 100};
  return {encode_hello({"v", 1, "e%", 2, HelloMode::active, "t&="}).value(),
          std::string(as_text(encode_hello_answer(answer).value())),
          u16(0x8004) + std::string(encode_request(create, {}, pool).value().payload.text()),
          u16(0x8003) + std::string(encode_request(clear, {}, pool).value().payload.text()),
          encode_refusal({PeerRefusal::superseded, "x"})};
}

std::vector<std::string> control_seeds() {
  return {frame(R"({"id":1,"op":"hello","arguments":{"version":1}})") + frame(R"({"id":2,"op":"status"})") +
              frame(R"({"id":3,"op":"subscribe","arguments":{"events":["*","purge"]}})") +
              frame(R"({"id":4,"op":"x","arguments":{"a":[1,2,{"b":null}]}})"),
          R"({"id":4,"ok":false,"error":{"code":"conflict","message":"m"}})",
          R"({"event":"purge","number":3,"data":{"done":1}})"};
}

std::vector<Target> targets() {
  return {
      {"nbd_server", nbd_server, server_seeds()},
      {"nbd_client", nbd_client, client_seeds()},
      {"peer_wire", peer_wire, peer_seeds()},
      {"control", control, control_seeds()},
      {"metadata", metadata, {std::string(9, '\0'), std::string("\x0c\x00\x02\x20\x00\x04\x40\x01\x80", 9)}}};
}

void feed(Entry entry, const std::string& text) {
  entry({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::string damaged(std::string text, std::mt19937& random) {
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes && !text.empty(); ++i) {
    const auto at = random() % text.size();
    switch (random() % 5) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text[at] = static_cast<char>(text[at] ^ (1 << random() % 8)); break;
      case 2: text.erase(at, 1 + random() % 16); break;
      case 3: text.insert(at, std::string(1 + random() % 16, static_cast<char>(random()))); break;
      default: text.insert(at, text.substr(random() % text.size(), 40));
    }
  }
  return text;
}

class Fuzz : public ::testing::TestWithParam<int> {};

TEST_P(Fuzz, KeptInputsAndDamagedStreamsAreHarmless) {
  const auto target = targets().at(static_cast<std::size_t>(GetParam()));
  const auto corpus = std::filesystem::path(MOOR_FUZZ_CORPUS) / target.name;
  if (std::filesystem::exists(corpus)) {
    for (const auto& file : std::filesystem::directory_iterator(corpus)) {
      std::ifstream stream(file.path(), std::ios::binary);
      feed(target.entry, {std::istreambuf_iterator<char>(stream), {}});
    }
  }
  const auto seed = std::random_device()();
  std::printf("%s: seed %u\n", target.name, seed);
  std::mt19937 random(seed);
  for (const auto& text : target.seeds) {
    for (int first = 0; first < 256; ++first) feed(target.entry, static_cast<char>(first) + text);
    for (int i = 0; i < 1500; ++i) {
      feed(target.entry, static_cast<char>(random()) + damaged(text, random));
    }
  }
  for (int i = 0; i < 500; ++i) {
    std::string noise(random() % 300, '\0');
    for (auto& c : noise) c = static_cast<char>(random());
    feed(target.entry, noise);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, ::testing::Values(0, 1, 2, 3, 4),
                         [](const auto& chosen) { return std::string(targets().at(chosen.param).name); });

}  // namespace
}  // namespace moor::block::fuzz
