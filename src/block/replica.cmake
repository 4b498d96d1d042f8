# The replica: step machine and directory format without I/O, and plain file access for tools and tests.
moor_room(
  NAME block/replica
  DEPS base block/core
  SOURCES core/crc32c.cc core/disk_files.cc core/layer_map.cc core/layer_sum.cc core/replica.cc core/replica_background.cc
          core/replica_chain.cc core/replica_check.cc core/replica_dirty.cc core/replica_lookup.cc core/replica_meta.cc core/replica_report.cc
          core/replica_store.cc core/sim_disk.cc)

moor_test(
  NAME block_replica_test
  SOURCES core/replica_fence_test.cc core/replica_model_test.cc core/replica_store_test.cc
  DEPS block/replica
  LIBS rapidcheck rapidcheck_gtest
  ENV RC_PARAMS=max_success=40)

# The replica on real files and on the loop.
moor_room(
  NAME block/store
  DEPS block/replica block/io
  SOURCES store/directory.cc store/replica_server.cc store/uring_disk.cc
  TESTS store/store_test.cc)
