# The device: a step machine without I/O between clients and an engine, and a FUSE file under a loop device.
moor_room(
  NAME block/bridge
  DEPS base block/core
  SOURCES core/bridge.cc)

pkg_check_modules(FUSE3 REQUIRED IMPORTED_TARGET fuse3)
moor_room(
  NAME block/device
  DEPS base block/bridge block/io
  SOURCES device/control.cc device/device.cc device/fuse_file.cc device/helper.cc device/link.cc device/loop_device.cc
          device/nbd_control.cc device/nbd_device.cc device/remove.cc
  PRIVATE_LIBS PkgConfig::FUSE3)

moor_test(
  NAME nbd_device_test
  SOURCES device/nbd_device_test.cc
  DEPS block/device)

moor_test(
  NAME bridge_test
  SOURCES core/bridge_test.cc
  DEPS block/bridge)
