#include <functional>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/loop.h"
#include "base/pool.h"
#include "base/task.h"
#include "base/task_group.h"

namespace moor {
namespace {
using namespace std::chrono_literals;

Task<int> answer() {
  co_return 42;
}
Task<int> twice(int depth) {
  if (depth == 0) co_return co_await answer();
  co_return co_await twice(depth - 1);
}

TEST(Task, HandsItsResultToWhoAwaitsIt) {
  ManualExecutor executor;
  EXPECT_EQ(block_on(executor, twice(3)), 42);
}

Task<int> sum_of_answers(int times) {
  int sum = 0;
  for (int i = 0; i < times; ++i) sum += co_await answer();
  co_return sum;
}

TEST(Task, ALoopOverTasksThatAreDoneAtOnceDoesNotGrowTheStack) {
  ManualExecutor executor;
  EXPECT_EQ(block_on(executor, sum_of_answers(1'000'000)), 42'000'000);
}

TEST(Task, IsDestroyedUnawaitedWithoutRunning) {
  auto flag = std::make_shared<int>(0);
  {
    auto unused = [](std::shared_ptr<int> value) -> Task<int> { co_return * value = 1; }(flag);
  }
  EXPECT_EQ(*flag, 0);
  EXPECT_EQ(flag.use_count(), 1);
}

TEST(Completion, BringsAValueFromAnotherThread) {
  Loop loop;
  const Completion<int> done(loop);
  std::thread other([done] { done.set(7); });
  EXPECT_EQ(block_on(loop, [](Completion<int> c) -> Task<int> { co_return co_await c; }(done)), 7);
  other.join();
  EXPECT_FALSE(done.set(8));
}

TEST(Sleep, EndsAtItsTimeOrWhenCancelled) {
  ManualExecutor executor;
  const TimePoint start = executor.clock().now();
  EXPECT_TRUE(block_on(executor, sleep_for(executor, 5s)).ok());
  EXPECT_EQ(executor.clock().now() - start, 5s);
  CancelSource source;
  executor.post([&] { source.cancel(); });
  EXPECT_TRUE(block_on(executor, sleep_for(executor, 1h, source.token())).is(Errc::cancelled));
  EXPECT_EQ(executor.clock().now() - start, 5s);
}

TEST(Cancel, ReachesChildrenAndCarriesItsReason) {
  ManualExecutor executor;
  CancelSource parent;
  CancelSource child(parent.token());
  CancelSource grandchild(child.token());
  parent.set_deadline(executor, executor.clock().now() + 3s, "move v1");
  executor.advance(2s);
  EXPECT_TRUE(grandchild.token().check().ok());
  executor.advance(1s);
  EXPECT_EQ(grandchild.token().reason().code, Errc::timed_out);
  EXPECT_EQ(grandchild.token().reason().message, "move v1: no answer in time");
  bool ran = false;
  const CancelCallback late(child.token(), [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(Cancel, ACallbackThatIsGoneIsNotCalled) {
  CancelSource source;
  int calls = 0;
  {
    const CancelCallback gone(source.token(), [&] { ++calls; });
  }
  std::unique_ptr<CancelCallback> second;
  const CancelCallback first(source.token(), [&] {
    ++calls;
    second.reset();
  });
  second = std::make_unique<CancelCallback>(source.token(), [&] { calls += 100; });
  source.cancel();
  EXPECT_EQ(calls, 1);
}

Task<Result<void>> fail_after(Executor& executor, Duration duration, CancelToken token) {
  CO_TRY_VOID(co_await sleep_for(executor, duration, token));
  co_return make_error(Errc::internal, "broken");
}

TEST(TaskGroup, FirstErrorCancelsTheOthersAndIsReported) {
  ManualExecutor executor;
  TaskGroup group(executor);
  const TimePoint start = executor.clock().now();
  group.spawn(sleep_for(executor, 1h, group.token()));
  group.spawn(fail_after(executor, 2s, group.token()));
  group.spawn(fail_after(executor, 3s, group.token()));
  const auto result = block_on(executor, group.join());
  EXPECT_TRUE(result.is(Errc::internal));
  EXPECT_EQ(executor.clock().now() - start, 2s);
  EXPECT_EQ(group.running(), 0u);
}

TEST(TaskGroup, EndingByItsOwnCancellationIsNoError) {
  ManualExecutor executor;
  CancelSource outer;
  TaskGroup group(executor, outer.token());
  group.spawn(sleep_for(executor, 1h, group.token()));
  executor.post([&] { outer.cancel(); });
  EXPECT_TRUE(block_on(executor, group.join()).ok());
}

TEST(TaskGroup, ADeadlineEndsAllTasksAndIsReported) {
  ManualExecutor executor;
  TaskGroup group(executor);
  group.set_deadline(executor.clock().now() + 10s, "attach v1");
  group.spawn(sleep_for(executor, 1h, group.token()));
  const auto result = block_on(executor, group.join());
  EXPECT_TRUE(result.is(Errc::timed_out));
}

TEST(TaskGroup, TasksMaySpawnMore) {
  ManualExecutor executor;
  TaskGroup group(executor);
  int count = 0;
  struct Spawner {
    static Task<Result<void>> run(TaskGroup* group, int* count, int left) {
      ++*count;
      if (left > 0) group->spawn(run(group, count, left - 1));
      co_return Result<void>();
    }
  };
  group.spawn(Spawner::run(&group, &count, 9));
  EXPECT_TRUE(block_on(executor, group.join()).ok());
  EXPECT_EQ(count, 10);
}

TEST(TaskGroupDeathTest, MustBeJoined) {
  EXPECT_DEATH(
      {
        ManualExecutor executor;
        TaskGroup group(executor);
        group.spawn(sleep_for(executor, 1s));
      },
      "join the group first");
}

TEST(Pool, RunsBlockingWorkElsewhereAndComesBack) {
  Loop loop;
  Pool pool(loop, 2);
  const auto here = std::this_thread::get_id();
  const auto there = block_on(loop, pool.run([] { return std::this_thread::get_id(); }));
  EXPECT_NE(here, there);
}

TEST(Loop, WorkRunsInTheOrderOfPostingBeforeAndWhileItRuns) {
  for (const bool one_by_one : {true, false}) {
    Loop loop;
    std::vector<int> order;
    for (int first = 0; first < 3; ++first) {
      loop.post([&, first] {
        order.push_back(first);
        loop.post([&, first] { order.push_back(first + 3); });
      });
    }
    if (one_by_one) {
      for (std::size_t ran = 0; ran < 6; ++ran) {
        ASSERT_EQ(order.size(), ran);
        ASSERT_TRUE(loop.run_one());
      }
    } else {
      loop.post([&] { loop.post([&] { loop.post([&] { loop.stop(); }); }); });
      loop.run();
    }
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5})) << one_by_one;
  }
}

TEST(Loop, WorkThatPostsForEverDoesNotKeepOthersWaiting) {
  Loop loop;
  bool heard = false;
  std::function<void()> again = [&] {
    if (heard) loop.stop();
    loop.post(again);
  };
  std::thread other;
  loop.post([&] {
    again();
    other = std::thread([&] { loop.post([&] { heard = true; }); });
  });
  loop.run();
  other.join();
  EXPECT_TRUE(heard);
}

TEST(Loop, TimersRunInOrderAndStoppedOnesDoNot) {
  Loop loop;
  std::vector<int> order;
  const TimePoint now = loop.clock().now();
  loop.start_timer(now + 3ms, [&] {
    order.push_back(3);
    loop.stop();
  });
  loop.start_timer(now + 1ms, [&] { order.push_back(1); });
  const auto stopped = loop.start_timer(now + 2ms, [&] { order.push_back(2); });
  loop.stop_timer(stopped);
  loop.post([&] { order.push_back(0); });
  loop.run();
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 3));
}

}  // namespace
}  // namespace moor
