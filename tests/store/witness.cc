#include "witness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#include "base/loop.h"
#include "store/embedded/embedded_store.h"

namespace moor::store {
namespace fs = std::filesystem;

namespace {
// Asked for before anybody makes mounts of his own: afterwards, in a chroot, the kernel names the program by
// the path that it has outside.
const fs::path kWriter = fs::read_symlink("/proc/self/exe").parent_path() / "store_writer";
}  // namespace

void Witness::start(const fs::path& directory, std::uint64_t seed) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const std::string program = kWriter;
  const std::string seed_text = std::to_string(seed);
  const std::string after = std::to_string(watched_);
  const pid_t parent = getpid();
  child_ = fork();
  ASSERT_GE(child_, 0);
  if (child_ == 0) {
    // It must not outlive a test that is killed.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent || dup2(ends[1], STDOUT_FILENO) < 0)
      _exit(4);
    execl(program.c_str(), program.c_str(), directory.c_str(), seed_text.c_str(), after.c_str(), nullptr);
    _exit(5);
  }
  close(ends[1]);
  pipe_ = ends[0];
  unfinished_.clear();
  is_writing_ = late_ = false;
  acknowledged_before_ = acknowledged_;
}

void Witness::listen(Life life) {
  using Steady = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLongestStart{60};
  const auto start = Steady::now();
  auto until = start + life.length;
  while (true) {
    const auto now = Steady::now();
    const bool not_yet = life.from_first_write && !is_writing_ && now < start + kLongestStart;
    if (not_yet) until = now + life.length;
    if (!not_yet && now >= until) return;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - now).count() + 1;
    pollfd readable{pipe_, POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>(left)) > 0 && !hear()) return;
  }
}

void Witness::drain() {
  constexpr int kMostReads = 1'000;  // a writer that is faster than us must not keep us here
  pollfd readable{pipe_, POLLIN, 0};
  for (int i = 0; i < kMostReads && poll(&readable, 1, 0) > 0 && hear(); ++i) {
  }
}

void Witness::hear_out() {
  while (hear()) {
  }
  close(pipe_);
  int status = 0;
  ASSERT_EQ(waitpid(child_, &status, 0), child_);
  if (!power_loss) {
    EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself with " << WEXITSTATUS(status);
  }
  // Each client may have had one more transaction under way.
  for (int& most : most_count_) ++most;
  if (acknowledged_ > acknowledged_before_) ++rounds_with_writes_;
}

bool Witness::hear() {
  char buffer[65536];
  const ssize_t size = read(pipe_, buffer, sizeof buffer);
  if (size <= 0) return false;
  unfinished_.append(buffer, static_cast<std::size_t>(size));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = unfinished_.find('\n', begin)) != std::string::npos; begin = end + 1)
    understand(std::string_view(unfinished_).substr(begin, end - begin));
  unfinished_.erase(0, begin);
  return true;
}

void Witness::understand(std::string_view line) {
  if (line.starts_with("ack")) is_writing_ = true;
  std::istringstream words{std::string(line)};
  std::string what;
  words >> what;
  Revision revision = 0;
  if (what == "open") {
    words >> revision;
    EXPECT_GE(revision, newest_known_) << "the store forgot revisions";
    left_seen_.fill(0);
  } else if (what == "ack") {
    std::size_t client = 0;
    int count = 0;
    words >> client >> count >> revision;
    understand_acknowledgement(client, count, revision);
  } else if (what == "moved") {
    words >> revision;
    if (!late_) newest_acknowledged_ = std::max(newest_acknowledged_, revision);
    ++(late_ ? late_lines_ : acknowledged_);
  } else if (what == "event") {
    std::string key;
    std::string value;
    words >> revision >> key >> value;
    if (!late_) understand_event(revision, key, value == "-" ? -1 : std::stoi(value));
  } else if (!power_loss) {
    ADD_FAILURE() << line;
  }
}

void Witness::understand_acknowledgement(std::size_t client, int count, Revision revision) {
  int& acknowledged = acknowledged_count_.at(client);
  int& most = most_count_.at(client);
  EXPECT_GT(count, acknowledged) << "an acknowledged write of client " << client << " is lost";
  EXPECT_LE(count, most + 1);
  most = count;
  ++(late_ ? late_lines_ : acknowledged_);
  if (late_) return;
  acknowledged = count;
  newest_acknowledged_ = std::max(newest_acknowledged_, revision);
}

// Revisions of this store have no holes, so neither may what the watcher sees, over all its restarts.
void Witness::understand_event(Revision revision, const std::string& key, int value) {
  EXPECT_EQ(revision, watched_ + 1) << "the watcher missed or repeated something at " << key;
  watched_ = revision;
  ++events_;
  int client = 0;
  if (std::sscanf(key.c_str(), "/client/%d/", &client) != 1) return;
  if (key == left_key(client)) left_seen_.at(static_cast<std::size_t>(client)) = value;
  // The first event after a restart may be the right one of a pair whose left was reported before the kill.
  const int left = left_seen_.at(static_cast<std::size_t>(client));
  if (key == right_key(client) && left != 0) {
    EXPECT_EQ(value, left);
  }
}

void Witness::check(const fs::path& directory) {
  Loop loop;
  auto opened = open_embedded_store(loop, directory);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  Store& store = **opened;
  const StoreStatus status = *block_on(loop, store.status());
  EXPECT_GE(status.revision, newest_acknowledged_) << "an acknowledged write is lost";
  EXPECT_GE(status.revision, newest_known_) << "revisions went back";
  EXPECT_GE(status.revision, watched_) << "a watcher saw what is not there";
  newest_known_ = status.revision;
  if (status.keys == 0) return;  // killed before the first write
  check_clients(store, loop);
  int money = 0;
  for (int account = 0; account < kAccounts; ++account) {
    const auto read = block_on(loop, store.get(account_key(account)));
    ASSERT_TRUE(read.ok() && read->entry);
    money += number_of(*read->entry->value);
  }
  EXPECT_EQ(money, kMoney) << "a transfer was half applied";
}

void Witness::check_clients(Store& store, Loop& loop) {
  for (int client = 0; client < kClients; ++client) {
    const auto number = [&](const std::string& key) {
      const auto read = block_on(loop, store.get(key));
      return read->entry ? number_of(*read->entry->value) : 0;
    };
    int& acknowledged = acknowledged_count_.at(static_cast<std::size_t>(client));
    const int left = number(left_key(client));
    EXPECT_EQ(left, number(right_key(client))) << "a transaction of client " << client << " was half applied";
    EXPECT_GE(left, acknowledged) << "an acknowledged write of client " << client << " is lost";
    int& most = most_count_.at(static_cast<std::size_t>(client));
    EXPECT_LE(left, most) << "client " << client << " wrote more than it tried";
    acknowledged = most = left;
    const auto trail = block_on(loop, store.list({.prefix = fmt::format("/client/{}/trail/", client)}));
    EXPECT_EQ(trail->entries.size(), static_cast<std::size_t>(std::min(left, kTrail)));
  }
}

}  // namespace moor::store
