#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <thread>

#include "block/io/control_client.h"
#include "block/io/control_server.h"

namespace moor::block::io {
namespace {

// The client waits, so it has a thread of its own; the server's loop runs in the test's.
class ControlIo : public ::testing::Test {
 protected:
  ControlIo() {
    std::string name = std::filesystem::temp_directory_path() / "moor-ctl-XXXXXX";
    directory_ = mkdtemp(name.data());
    path_ = directory_ + "/ctl";
    server_.on("echo", [](const Json& arguments, Responder responder) { responder.reply(arguments); });
    server_.on("fail",
               [](const Json&, Responder responder) { responder.fail(make_error(Errc::conflict, "no")); });
    server_.on("forget", [](const Json&, Responder) {});
    server_.on("later", [this](const Json&, Responder responder) {
      server_.publish("purge", Json::object({{"done", 1}}));
      server_.publish("purge", Json::object({{"done", 2}}));
      kept_.emplace(std::move(responder));
      timer_.start(std::chrono::milliseconds(5));
    });
    EXPECT_TRUE(server_.listen(parse_address("unix:" + path_).value()));
  }
  ~ControlIo() override { std::filesystem::remove_all(directory_); }

  template <class Function>
  auto with_client(Function function) {
    auto future = std::async(std::launch::async, [&] { return function(); });
    while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      EXPECT_TRUE(loop_->run_once(std::chrono::milliseconds(1)));
    }
    return future.get();
  }

  std::string directory_;
  std::string path_;
  BufferPool pool_;
  std::unique_ptr<Loop> loop_ = Loop::create(64).value();
  ControlServer server_{*loop_, pool_, Json::object({{"program", "test"}})};
  std::optional<Responder> kept_;
  Timer timer_{*loop_, [this] {
                 kept_->reply(Json::object({{"late", true}}));
                 kept_.reset();
               }};
};

constexpr auto kTimeout = std::chrono::seconds(30);

TEST_F(ControlIo, CallsAreAnsweredNowLaterOrWithAnError) {
  with_client([&] {
    auto client = ControlClient::connect(path_, kTimeout).value();
    EXPECT_EQ(client.about().get_string("program"), "test");
    const Json arguments = Json::object({{"text", "hé\n"}, {"number", 18446744073709551615ull}});
    EXPECT_EQ(client.call("echo", arguments).value(), arguments);
    EXPECT_TRUE(client.call("fail").is(Errc::conflict));
    EXPECT_TRUE(client.call("unheard-of").is(Errc::unsupported));
    EXPECT_TRUE(client.call("forget").is(Errc::internal)) << "a call that is given up is answered";
    EXPECT_EQ(client.call("later").value().get_bool("late"), true);
    return 0;
  });
}

TEST_F(ControlIo, EventsReachSubscribersInOrder) {
  with_client([&] {
    auto client = ControlClient::connect(path_, kTimeout).value();
    EXPECT_TRUE(client.call("subscribe", Json::object({{"events", Json::array({"purge"})}})));
    EXPECT_TRUE(client.call("later"));
    EXPECT_EQ(client.next_event(kTimeout).value().data.get_int64("done"), 1);
    EXPECT_EQ(client.next_event(kTimeout).value().data.get_int64("done"), 2);
    EXPECT_TRUE(client.next_event(std::chrono::milliseconds(1)).is(Errc::timed_out));
    return 0;
  });
}

TEST_F(ControlIo, AnAnswerToAClientThatLeftGoesNowhere) {
  with_client([&] {
    auto client = ControlClient::connect(path_, kTimeout).value();
    EXPECT_TRUE(client.notify("later"));
    return 0;
  });
  for (int i = 0; i < 200 && (kept_ || server_.sessions() > 0); ++i) {
    ASSERT_TRUE(loop_->run_once(std::chrono::milliseconds(10)));
  }
  EXPECT_EQ(server_.sessions(), 0u);
  EXPECT_FALSE(kept_);
}

TEST_F(ControlIo, ALargeAnswerArrivesWhole) {
  with_client([&] {
    auto client = ControlClient::connect(path_, kTimeout).value();
    const Json large = Json::object({{"text", std::string(3 << 20, 'x')}});
    EXPECT_TRUE(client.call("echo", large).value() == large);
    return 0;
  });
}

}  // namespace
}  // namespace moor::block::io
