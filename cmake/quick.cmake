# What keeps a clean build short (docs/decisions/0008).
#
# Most of a file's time goes into parsing the same headers and instantiating the same templates as its neighbour. With
# MOOR_UNITY a target's files are compiled a handful at a time, and two precompiled headers, one for rooms and one for
# tests, are shared by all targets. They hold libraries only, never a header of ours: which room may include which is
# still decided by include paths. The presets dev and clang compile each file by itself, so that a file that
# forgets an include is found there.
set(MOOR_UNITY_BATCH 8)

# Tests are read by a debugger more often than they are waited for; what they test is optimised all the same.
# Not -O0: the model checks among them spend their time in their own code. -O1 took about a third longer for
# attach_test.
set(MOOR_TEST_OPTIONS $<$<CONFIG:Release>:-Og>)

find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)
find_package(GTest REQUIRED)

set(libraries <algorithm> <charconv> <chrono> <cstdint> <deque> <functional> <map> <memory> <optional> <set> <string>
              <string_view> <utility> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/empty.cc CONTENT "")

add_library(moor_room_headers OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
target_link_libraries(moor_room_headers PRIVATE fmt::fmt tl::expected Threads::Threads)
target_precompile_headers(moor_room_headers PRIVATE ${libraries})

add_library(moor_test_headers OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
target_link_libraries(moor_test_headers PRIVATE fmt::fmt tl::expected Threads::Threads GTest::gtest GTest::gmock)
target_compile_options(moor_test_headers PRIVATE ${MOOR_TEST_OPTIONS})
target_precompile_headers(moor_test_headers PRIVATE ${libraries} <gmock/gmock.h> <gtest/gtest.h>)

# ALONE names files that are compiled by themselves: names of theirs meet names of a neighbour.
function(moor_unity target)
  cmake_parse_arguments(UNITY "" "" "ALONE" ${ARGN})
  if(MOOR_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${MOOR_UNITY_BATCH})
    set_source_files_properties(${UNITY_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Nobody waits for what these targets compute: command lines, supervision, generated code. -O1 takes a third less time
# than -O2 for them.
function(moor_unhurried target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(moor_quick_room target)
  moor_unity(${target} ${ARGN})
  if(MOOR_UNITY)
    target_precompile_headers(${target} REUSE_FROM moor_room_headers)
  endif()
endfunction()

function(moor_quick_test target)
  moor_unity(${target} ${ARGN})
  target_compile_options(${target} PRIVATE ${MOOR_TEST_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM moor_test_headers)
endfunction()
