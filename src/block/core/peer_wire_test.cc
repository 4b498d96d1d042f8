#include "block/core/peer_wire.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "block/core/nbd_test_support.h"

namespace moor::block {
namespace {

rc::Gen<std::string> text(std::size_t most) {
  return rc::gen::map(rc::gen::arbitrary<std::string>(),
                      [most](std::string value) { return value.substr(0, most); });
}

rc::Gen<std::map<std::string, std::string>> labels() {
  return rc::gen::map(rc::gen::container<std::map<std::string, std::string>>(text(100), text(100)),
                      [](auto map) {
                        while (map.size() > kMaxLabels) map.erase(map.begin());
                        return map;
                      });
}

rc::Gen<std::vector<std::uint64_t>> regions() {
  return rc::gen::map(rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 500)),
                      [](auto list) {
                        std::sort(list.begin(), list.end());
                        list.erase(std::unique(list.begin(), list.end()), list.end());
                        return list;
                      });
}

// Made field by field: gen::build says the same in templates that made this the slowest file of a build.
template <class T>
T any() {
  return *rc::gen::arbitrary<T>();
}

Layer any_layer() {
  Layer layer;
  layer.id = *text(kMaxIdBytes);
  layer.snapshot = *text(kMaxIdBytes);
  layer.parent = any<std::string>();
  layer.created = *text(30);
  layer.labels = *labels();
  layer.removed = any<bool>();
  layer.user_created = any<bool>();
  layer.summed = any<bool>();
  layer.used_bytes = any<std::uint64_t>();
  return layer;
}

HelloAnswer any_answer() {
  HelloAnswer answer;
  answer.size = any<std::uint64_t>();
  answer.generation = any<Generation>();
  answer.served = any<Epoch>();
  answer.wrote = any<Epoch>();
  answer.clean = any<bool>();
  answer.rebuilding = any<bool>();
  answer.dirty = *regions();
  for (auto layers = *rc::gen::inRange(0, 12); layers > 0; --layers) answer.chain.push_back(any_layer());
  answer.head_id = *text(kMaxIdBytes);
  return answer;
}

rc::Gen<HelloAnswer> answer() {
  // Small sizes: the shape varies, and a hundred of them take milliseconds.
  return rc::gen::resize(12, rc::gen::exec(&any_answer));
}

Hello any_hello() {
  Hello hello;
  hello.volume = *text(kMaxIdBytes);
  hello.epoch = any<Epoch>();
  hello.engine = *text(kMaxIdBytes);
  hello.session = any<std::uint64_t>();
  hello.mode = any<bool>() ? HelloMode::active : HelloMode::inspect;
  hello.token = *text(kMaxTokenBytes);
  return hello;
}

RC_GTEST_PROP(PeerWire, HelloSurvivesTheExportName, ()) {
  const auto original = any_hello();
  const auto name = encode_hello(original);
  RC_ASSERT(name.ok());
  RC_ASSERT(name->size() <= nbd::kMaxNameBytes);
  RC_ASSERT(std::all_of(name->begin(), name->end(), [](char c) { return c > ' ' && c <= '~'; }));
  RC_ASSERT(decode_hello(*name).value() == original);
}

TEST(PeerWire, TheLongestHelloFitsIntoAnExportName) {
  Hello longest{
      std::string(kMaxIdBytes, '\xff'),   ~0ull, std::string(kMaxIdBytes, '\xff'), ~0ull, HelloMode::inspect,
      std::string(kMaxTokenBytes, '\xff')};
  const auto name = encode_hello(longest);
  ASSERT_TRUE(name) << name.error().message;
  EXPECT_EQ(decode_hello(*name).value(), longest);
  longest.token.push_back('x');
  EXPECT_TRUE(encode_hello(longest).is(Errc::invalid));
}

TEST(PeerWire, AnOrdinaryExportNameIsNoHello) {
  EXPECT_TRUE(decode_hello("").is(Errc::not_found));
  EXPECT_TRUE(decode_hello("disk").is(Errc::not_found));
}

TEST(PeerWire, OtherSpellingsOfAHelloAreRefused) {
  const std::string good = "moor-hello/2?volume=v&epoch=1&engine=e&session=2&mode=active&token=t";
  ASSERT_TRUE(decode_hello(good));
  const std::string bad[] = {
      "moor-hello/2",
      "moor-hello/x?volume=v",
      "moor-hello/2?volume=v&epoch=-1&engine=e&session=2&mode=active&token=t",
      "moor-hello/2?volume=v&epoch=1x&engine=e&session=2&mode=active&token=t",
      "moor-hello/2?volume=v&epoch=99999999999999999999&engine=e&session=2&mode=active&token=t",
      "moor-hello/2?volume=v&epoch=1&engine=e&session=2&mode=lazy&token=t",
      "moor-hello/2?epoch=1&volume=v&engine=e&session=2&mode=active&token=t",
      "moor-hello/2?volume=%4&epoch=1&engine=e&session=2&mode=active&token=t",
      "moor-hello/2?volume=%zz&epoch=1&engine=e&session=2&mode=active&token=t",
      "moor-hello/2?volume=a b&epoch=1&engine=e&session=2&mode=active&token=t",
      good + "&more=1",
      good + "%",
      "moor-hello/2?volume=" + std::string(300, 'v') + "&epoch=1&engine=e&session=2&mode=active&token=t",
  };
  for (const auto& name : bad) EXPECT_TRUE(decode_hello(name).is(Errc::invalid)) << name;
  EXPECT_TRUE(decode_hello("moor-hello/3?anything").is(Errc::unsupported));
}

TEST(PeerWire, TheTokenIsNotInTheDescription) {
  EXPECT_EQ(describe({"v", 3, "e", 4, HelloMode::active, "secret"}).find("secret"), std::string::npos);
}

RC_GTEST_PROP(PeerWire, HelloAnswerSurvives, ()) {
  const auto original = *answer();
  const auto bytes = encode_hello_answer(original);
  RC_ASSERT(bytes.ok());
  RC_ASSERT(decode_hello_answer(*bytes).value() == original);
}

RC_GTEST_PROP(PeerWire, ACutOrPaddedAnswerIsRefused, ()) {
  const auto bytes = encode_hello_answer(*answer()).value();
  const auto keep = *rc::gen::inRange<std::size_t>(0, bytes.size());
  RC_ASSERT(!decode_hello_answer(Bytes(bytes).first(keep)).ok());
  auto longer = bytes;
  longer.push_back(std::byte{0});
  RC_ASSERT(!decode_hello_answer(longer).ok());
}

RC_GTEST_PROP(PeerWire, AFlippedBitNeverBreaksTheDecoder, ()) {
  auto bytes = encode_hello_answer(*answer()).value();
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] ^= static_cast<std::byte>(1 << *rc::gen::inRange(0, 8));
  const auto decoded = decode_hello_answer(bytes);
  // Whatever it understood has one spelling, and that is the one it was given.
  if (decoded) RC_ASSERT(encode_hello_answer(*decoded).value() == bytes);
}

TEST(PeerWire, AMillionDirtyRegionsInARowAreAFewBytes) {
  HelloAnswer answer;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) answer.dirty.push_back(i);
  const auto bytes = encode_hello_answer(answer);
  ASSERT_TRUE(bytes);
  EXPECT_LT(bytes->size(), 200u);
  EXPECT_EQ(decode_hello_answer(*bytes).value(), answer);
  answer.dirty = {2, 1};
  EXPECT_TRUE(encode_hello_answer(answer).is(Errc::invalid)) << "regions must ascend";
}

PeerRequest any_request() {
  PeerRequest request;
  request.id = any<std::uint64_t>();
  request.op =
      *rc::gen::element(PeerOp::store_generation, PeerOp::mark_served, PeerOp::clear_dirty,
                        PeerOp::snapshot_create, PeerOp::snapshot_mark_removed, PeerOp::snapshot_purge,
                        PeerOp::snapshot_revert, PeerOp::chain, PeerOp::set_rebuilding, PeerOp::expand);
  request.argument = any<std::uint64_t>();
  request.regions = *regions();
  request.snapshot.name = *text(kMaxIdBytes);
  request.snapshot.layer_id = *text(kMaxIdBytes);
  request.snapshot.head_id = *text(kMaxIdBytes);
  request.snapshot.created = *text(30);
  request.snapshot.labels = *labels();
  request.snapshot.user_created = any<bool>();
  request.snapshot.generation = any<Generation>();
  return request;
}

nbd::Request as_served(const nbd::ClientRequest& sent) {
  nbd::Request served;
  served.command = sent.command;
  served.flags = sent.flags;
  served.offset = sent.offset;
  served.length = sent.length;
  served.payload = sent.payload;
  return served;
}

RC_GTEST_PROP(PeerWire, PrivateCommandsSurvive, ()) {
  BufferPool pool;
  const auto original = any_request();
  const auto sent = encode_request(original, {}, pool);
  RC_ASSERT(sent.ok());
  const auto got = decode_request(as_served(*sent), 42);
  RC_ASSERT(got.ok());
  RC_ASSERT(got->id == 42u);
  RC_ASSERT(got->op == original.op);
  RC_ASSERT(got->argument == original.argument);
  if (original.op == PeerOp::clear_dirty) RC_ASSERT(got->regions == original.regions);
  if (original.op == PeerOp::snapshot_create) RC_ASSERT(got->snapshot == original.snapshot);
}

TEST(PeerWire, StandardCommandsKeepTheirFlagsAndRange) {
  BufferPool pool;
  PeerRequest request;
  request.op = PeerOp::write_zeroes;
  request.fua = true;
  request.no_hole = true;
  request.copy = true;
  request.offset = 4096;
  request.length = 8192;
  const auto sent = encode_request(request, {}, pool);
  ASSERT_TRUE(sent);
  const auto got = decode_request(as_served(*sent), 1);
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->fua);
  EXPECT_TRUE(got->no_hole);
  EXPECT_FALSE(got->fast_zero);
  EXPECT_TRUE(got->copy);
  EXPECT_EQ(got->offset, 4096u);
  EXPECT_EQ(got->length, 8192u);
}

RC_GTEST_PROP(PeerWire, GarbageBodiesAreErrors, (std::vector<std::uint8_t> garbage)) {
  BufferPool pool;
  nbd::Request served;
  served.command = *rc::gen::inRange<std::uint16_t>(0x8000, 0x8010);
  served.payload = pool.copy_of(std::as_bytes(std::span(garbage)));
  served.length = static_cast<std::uint32_t>(garbage.size());
  const auto got = decode_request(served, 1);
  RC_ASSERT(got.ok() || got.is(Errc::invalid) || got.is(Errc::unsupported));
}

TEST(PeerWire, EveryRefusalSurvivesAndForeignTextsAreNone) {
  for (const auto reason : {PeerRefusal::wrong_token, PeerRefusal::wrong_volume, PeerRefusal::old_epoch,
                            PeerRefusal::other_engine, PeerRefusal::old_session, PeerRefusal::superseded,
                            PeerRefusal::damaged, PeerRefusal::shutting_down}) {
    const Refusal refusal{reason, "because: of that"};
    EXPECT_EQ(decode_refusal(encode_refusal(refusal)), refusal);
    EXPECT_NE(refusal_reply(reason), nbd::OptionReply::ack);
  }
  for (const auto* foreign : {"", "no such export", "moor:", "moor:superseded", "moor:unheard-of: x"}) {
    EXPECT_EQ(decode_refusal(foreign), (Refusal{PeerRefusal::none, foreign}));
  }
}

// The whole way: HELLO in the name, answer in the information, commands, replies, the last word.
TEST(PeerWire, AConversationOverBothMachines) {
  BufferPool pool;
  const Hello hello{"volume 1", 7, "engine-a", 3, HelloMode::active, "s3cret/&="};
  nbd::ClientOptions options;
  options.export_name = encode_hello(hello).value();
  nbd::Client client(pool, options);
  nbd::Server server(pool);
  HelloAnswer state;
  state.size = 1 << 20;
  state.generation = 9;
  state.dirty = {1, 2, 5};
  state.chain.push_back(
      {"layer-1", "monday", "layer-0", "2026-01-01T00:00:00Z", {{"a", "b"}}, false, true, false, 77});

  std::vector<nbd::ClientEvent> heard;
  const auto exchange = [&] {
    for (int round = 0; round < 20; ++round) {
      server.feed(as_bytes(nbd::testing::drain(client.out())));
      for (auto& event : server.take_events()) {
        if (const auto* open = std::get_if<nbd::OpenRequested>(&event)) {
          ASSERT_EQ(decode_hello(open->name).value(), hello);
          nbd::ExportDescription description;
          description.size = state.size;
          description.private_commands = true;
          description.private_infos.emplace_back(nbd::Info::hello_answer, encode_hello_answer(state).value());
          server.accept(std::move(description));
        } else if (const auto* request = std::get_if<nbd::Request>(&event)) {
          const auto decoded = decode_request(*request, 5);
          ASSERT_TRUE(decoded);
          PeerReply reply;
          if (decoded->op == PeerOp::chain) reply.state = state;
          if (decoded->op == PeerOp::expand) {
            reply.error = nbd::kErrNoSpace;
            reply.message = "full";
          }
          ASSERT_TRUE(send_reply(server, *request, reply));
        }
      }
      client.feed(as_bytes(nbd::testing::drain(server.out())));
      for (auto& event : client.take_events()) heard.push_back(std::move(event));
    }
  };
  exchange();
  ASSERT_EQ(heard.size(), 1u);
  const auto& ready = std::get<nbd::Ready>(heard[0]);
  EXPECT_EQ(decode_hello_answer(ready.remote.hello_answer).value(), state);

  for (const auto op : {PeerOp::mark_served, PeerOp::chain, PeerOp::expand}) {
    PeerRequest request;
    request.op = op;
    request.id = static_cast<std::uint64_t>(op);
    client.send(encode_request(request, {}, pool).value());
  }
  heard.clear();
  exchange();
  ASSERT_EQ(heard.size(), 3u);
  const auto done = decode_reply(PeerOp::mark_served, std::get<nbd::ClientReply>(heard[0]));
  EXPECT_EQ(done->error, 0u);
  const auto chain = decode_reply(PeerOp::chain, std::get<nbd::ClientReply>(heard[1]));
  EXPECT_EQ(chain->state.value(), state);
  const auto full = decode_reply(PeerOp::expand, std::get<nbd::ClientReply>(heard[2]));
  EXPECT_EQ(full->error, nbd::kErrNoSpace);
  EXPECT_EQ(full->message, "full");

  server.farewell(encode_refusal({PeerRefusal::superseded, "epoch 8 serves now"}));
  heard.clear();
  exchange();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(decode_refusal(std::get<nbd::Farewell>(heard[0]).message).reason, PeerRefusal::superseded);
}

}  // namespace
}  // namespace moor::block
