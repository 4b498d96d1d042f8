# The engine: step machine without I/O, its world for tests, and the glue that runs it on the io_uring loop.
moor_room(
  NAME block/engine_core
  DEPS base block/core
  SOURCES core/engine.cc core/engine_chain.cc core/engine_control.cc core/engine_dirty.cc core/engine_forward.cc
          core/engine_io.cc core/engine_members.cc
          core/engine_membership.cc core/engine_operations.cc core/engine_question.cc core/engine_resync.cc core/engine_start.cc
          core/engine_standby.cc core/engine_start_rule.cc core/engine_stats.cc core/engine_take.cc)

moor_room(
  NAME block/engine
  DEPS base block/engine_core block/io
  SOURCES engine/control.cc engine/forward_front.cc engine/host.cc engine/member_link.cc)

moor_test(
  NAME engine_test
  SOURCES core/engine_test.cc core/engine_standby_test.cc core/engine_start_test.cc core/engine_start_rule_test.cc core/engine_take_test.cc
          core/engine_handover_test.cc
  DEPS block/engine_core)

moor_test(
  NAME engine_world_test WHOLE
  TIMEOUT 300
  SOURCES core/engine_world_test.cc core/engine_test_world.cc core/engine_test_load.cc core/engine_test_moves.cc
  DEPS block/engine_core)
