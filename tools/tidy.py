#!/usr/bin/env python3
"""House rules that a compiler cannot see. Prints each violation as file:line: sentence; exits 1 when there are any.

A line can be excused with a trailing `// tidy: <why>`; the reason is mandatory.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# room -> rooms it may include, as the table in docs/ARCHITECTURE.md says. Its own is always allowed.
MAY_USE = {
    "base": set(),
    "http": {"base"},
    "store": {"base"},
    "model": {"base"},
    "registry": {"base", "model", "store", "http"},
    "attach": {"base", "model"},
    "control": {"base", "model", "attach", "registry", "store"},
    "compute": {"base", "model", "attach", "registry"},
    "block": {"base"},
    "agent": {"base", "model", "registry", "block", "http"},
    "doors": {"base", "http", "model", "registry", "attach", "compute", "store"},
    "sim": {"base", "store", "model", "registry", "attach", "control", "compute", "block", "agent", "http"},
    "cli": {"base", "http", "model", "registry", "attach", "sim"},
    "cmd": None,  # wiring: everything
}

# Third-party headers and the rooms whose .cc files (or private headers) may include them.
THIRD_PARTY = {
    r"boost/beast|boost/asio/ssl": [],
    r"boost/asio": ["http/", "base/loop.cc"],
    r"boost/json": ["base/json"],
    r"sqlite3\.h": ["store/embedded/", "cmd/moord/"],
    r"grpcpp/|google/protobuf": ["store/etcd/", "doors/csi/"],
    r"liburing\.h": ["block/io/"],
    r"fuse3/|fuse_lowlevel": ["block/", "cmd/moorblk/"],
    r"spdlog/": ["base/log.cc"],
    r"CLI/": ["cli/", "cmd/"],
    r"yaml-cpp/": ["cli/"],
}

# Rooms without effects: no clock, thread, socket, file or chance of their own.
PURE = ["attach/", "control/controllers/", "compute/", "block/core/", "model/", "store/mvcc"]
EFFECTS = re.compile(
    r"#include <(thread|mutex|condition_variable|fstream|filesystem|sys/socket\.h|unistd\.h|fcntl\.h|random|ctime)>"
    r"|system_clock::now|steady_clock::now|\bgetenv\(|\brand\(\)|\bRealClock\b|\bRealRandom\b|std::cout|std::cerr"
)
NOW = re.compile(r"(system_clock|steady_clock)::now")

MAX_FILE, MAX_FUNCTION, MAX_LINE = 800, 60, 110

problems = []


def complain(path, line, sentence):
    problems.append(f"{path.relative_to(ROOT)}:{line}: {sentence}")


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in sorted(set(out.stdout.split("\n"))) if name and (ROOT / name).is_file()]


def excused(text):
    return re.search(r"// tidy: \S+", text) is not None


def check_includes(path, inside, lines):
    room = inside.split("/")[0]
    allowed = MAY_USE.get(room, set())
    is_test = inside.endswith("_test.cc") or "/contract/" in inside or "_test_" in inside
    for number, text in enumerate(lines, 1):
        if excused(text):
            continue
        ours = re.match(r'\s*#include "([^"]+)"', text)
        if ours:
            target = ours.group(1)
            if target.startswith("../") or "/" not in target and not target.endswith(".pb.h"):
                complain(path, number, f'write "room/{target}" instead of a relative include')
            elif allowed is not None:
                other = target.split("/")[0]
                if other in MAY_USE and other != room and other not in allowed:
                    complain(path, number, f"{room} may not include {other}: arrows go one way (docs/ARCHITECTURE.md)")
        library = re.match(r"\s*#include <([^>]+)>", text)
        if library:
            for pattern, homes in THIRD_PARTY.items():
                if re.match(pattern, library.group(1)) and not any(inside.startswith(home) for home in homes):
                    complain(path, number, f"<{library.group(1)}> belongs into {' or '.join(homes) or 'no room'}")
                    break
        if not is_test and any(inside.startswith(pure) for pure in PURE) and EFFECTS.search(text):
            complain(path, number, "this room has no effects: time, chance and I/O come in through interfaces")
        if NOW.search(text) and not is_test and not inside.startswith(("base/real_", "cmd/", "block/io/")):
            complain(path, number, "ask a Clock for the time")


def check_shape(path, inside, lines):
    if len(lines) > MAX_FILE:
        complain(path, len(lines), f"{len(lines)} lines; look for a seam ({MAX_FILE} is the limit)")
    if path.suffix == ".h":
        if not any(text.strip() == "#pragma once" for text in lines):
            complain(path, 1, "a header needs #pragma once")
        if not lines or not lines[0].startswith("//"):
            complain(path, 1, "a header opens with what it promises, and to whom")
        for number, text in enumerate(lines, 1):
            if re.match(r"using namespace ", text):
                complain(path, number, "no using namespace in a header")
    start = None
    for number, text in enumerate(lines, 1):
        if excused(text):
            start = None
            continue
        # clang-format leaves definitions at column 0: a function opens with a line that ends in '{' and closes with '}'.
        if re.match(r"^[A-Za-z_~].*\)?.*\{$", text) and not re.match(r"^(namespace|struct|class|enum|union|extern|static const|constexpr|const|inline constexpr|TEST)", text):
            start = number
        elif text.startswith("}") and start is not None:
            if number - start > MAX_FUNCTION:
                complain(path, start, f"a function of {number - start} lines; a screen holds {MAX_FUNCTION}")
            start = None


def check_words(path, lines):
    for number, text in enumerate(lines, 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", text) and not re.search(r"(TODO|FIXME|XXX)\(#\d+\)", text):
            complain(path, number, "a TODO carries an issue number: TODO(#12)")
        if re.search(r"sleep_for\(std::chrono|\busleep\(|\bsleep\(\d", text) and not excused(text):
            complain(path, number, "wait for a condition instead of sleeping")


def check_registration():
    """A test or source that no build file names would rot unseen."""
    lists = {path: path.read_text() for path in tracked("*CMakeLists.txt", "*.cmake")}
    for path in tracked("src/*.cc", "tests/*.cc", "bench/*.cc"):
        if not any(os.path.relpath(path, where.parent) in text for where, text in lists.items()):
            complain(path, 1, "no CMakeLists.txt or .cmake names this file")


def check_rooms():
    for room in sorted((ROOT / "src").iterdir()):
        if room.is_dir() and room.name != "cmd" and not (room / "README.md").is_file():
            complain(room / "README.md", 1, "a room has a README.md of a page or less")
        readme = room / "README.md"
        if readme.is_file() and len(readme.read_text().splitlines()) > 80:
            complain(readme, 1, "a page or less (80 lines)")


def main():
    for path in tracked("src/*.h", "src/*.cc", "tests/*.h", "tests/*.cc", "bench/*.h", "bench/*.cc"):
        lines = path.read_text().splitlines()
        check_shape(path, str(path.relative_to(ROOT)), lines)
        check_words(path, lines)
        if path.is_relative_to(ROOT / "src"):
            check_includes(path, str(path.relative_to(ROOT / "src")), lines)
    check_registration()
    check_rooms()
    for problem in problems:
        print(problem)
    print(f"tidy: {len(problems)} problem{'s' if len(problems) != 1 else ''}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
