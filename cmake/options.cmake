# Compiler settings that hold for every room.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(MOOR_SANITIZE "" CACHE STRING "address or thread; empty for none")
option(MOOR_COVERAGE "Instrument for gcov" OFF)
option(MOOR_PLANTS "Build with the planted mistakes of base/plants.def (for tools/mutants)" OFF)
option(MOOR_UNITY "Compile the files of a target together, over shared precompiled headers (cmake/quick.cmake)" OFF)
option(MOOR_FUZZ "Build the libFuzzer targets (clang only)" OFF)

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                    -Wimplicit-fallthrough -Wno-missing-field-initializers -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside libstdc++ for correct code at -O2 (its bugs 105329 and 107852).
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds)
  # The compiler looks for garbage when half a gigabyte is in use instead of 128 MiB: about a tenth less time for the
  # files of `attach`.
  add_compile_options(--param=ggc-min-heapsize=524288)
else()
  # libstdc++ 12's own std::stable_sort uses what it deprecates, and clang says so of every instance.
  add_compile_options(-Wno-deprecated-declarations)
endif()
if(MOOR_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ takes whatever is not the file on its command line for a header, where a type without linkage would be a
  # mistake. The presets that compile each file by itself keep the warning.
  add_compile_options(-Wno-subobject-linkage)
endif()
# All of our programs have threads; said everywhere, so that all targets can share a precompiled header.
add_compile_options(-pthread)
if(MOOR_SANITIZE STREQUAL "address")
  # Not vptr: to see whether memory can be read it makes a pipe, and where a test has used up all descriptors it takes
  # good objects for bad ones.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(MOOR_SANITIZE STREQUAL "thread")
  # g++ cannot instrument atomic_thread_fence; Asio uses it only beside atomics that are instrumented.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
endif()
if(MOOR_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
if(MOOR_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

if(MOOR_PLANTS)
  add_compile_definitions(MOOR_PLANTS)
endif()

# Paths of the build machine do not belong into binaries or logs.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)

find_program(MOOR_CCACHE ccache)
if(MOOR_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${MOOR_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(MOOR_MOLD mold)
if(MOOR_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_package(Threads REQUIRED)

# docs/decisions/0009: for what allocates much. The sanitizers bring an allocator of their own.
function(moor_allocator target)
  if(NOT MOOR_SANITIZE AND NOT MOOR_FUZZ)
    find_library(MOOR_JEMALLOC jemalloc REQUIRED)
    target_link_libraries(${target} PRIVATE ${MOOR_JEMALLOC})
  endif()
endfunction()
