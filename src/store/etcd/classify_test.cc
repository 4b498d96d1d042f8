#include <gtest/gtest.h>

#include "store/etcd/wire.h"

namespace moor::store::etcd {
namespace {

TEST(Classify, OnlyWhatNeverLeftOrWasRefusedIsCertainlyNotApplied) {
  EXPECT_TRUE(classify(14, "failed to connect to all addresses; last error: refused").not_applied);
  EXPECT_TRUE(classify(14, "etcdserver: no leader").not_applied);
  EXPECT_TRUE(classify(8, "etcdserver: mvcc: database space exceeded").not_applied);
  EXPECT_TRUE(classify(8, "etcdserver: too many requests").not_applied);
  for (const char* message : {"Socket closed", "Connection reset by peer", "etcdserver: request timed out",
                              "etcdserver: request timed out, possibly due to previous leader failure",
                              "etcdserver: request timed out, possibly due to connection lost",
                              "etcdserver: leader changed", "etcdserver: server stopped", ""}) {
    EXPECT_FALSE(classify(14, message).not_applied) << message;
    EXPECT_TRUE(classify(14, message).retry) << message;
  }
  for (const int code : {1, 2, 4, 10, 13}) EXPECT_FALSE(classify(code, "whatever").not_applied) << code;
}

TEST(Classify, LimitsAndCompactionHaveTheirOwnCodes) {
  EXPECT_EQ(classify(3, "etcdserver: request is too large").error.code, Errc::exhausted);
  EXPECT_EQ(classify(8, "etcdserver: mvcc: database space exceeded").error.code, Errc::exhausted);
  EXPECT_EQ(classify(8, "grpc: received message larger than max (3 vs. 2)").error.code, Errc::exhausted);
  EXPECT_TRUE(classify(8, "Received message larger than max (3 vs. 2)").message_too_big);
  EXPECT_EQ(classify(8, "etcdserver: too many requests").error.code, Errc::unavailable);
  EXPECT_EQ(classify(11, "etcdserver: mvcc: required revision has been compacted").error.code, Errc::expired);
  EXPECT_EQ(classify(11, "etcdserver: mvcc: required revision is a future revision").error.code,
            Errc::unavailable);
  EXPECT_EQ(classify(5, "etcdserver: requested lease not found").error.code, Errc::not_found);
  EXPECT_EQ(classify(4, "Deadline Exceeded").error.code, Errc::timed_out);
  EXPECT_EQ(classify(7, "etcdserver: permission denied").error.code, Errc::forbidden);
  EXPECT_EQ(classify(15, "etcdserver: corrupt cluster").error.code, Errc::corrupt);
}

}  // namespace
}  // namespace moor::store::etcd
