# The device: a step machine without I/O between clients and an engine, and a FUSE file under a loop device.
moor_room(
  NAME block/bridge
  DEPS base block/core
  SOURCES core/bridge.cc)

moor_test(
  NAME bridge_test
  SOURCES core/bridge_test.cc
  DEPS block/bridge)
