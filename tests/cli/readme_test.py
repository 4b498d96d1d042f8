"""The README's commands, typed exactly as they stand there, in one shell, on a machine of their own: a mount namespace
with an empty /mnt, a home directory of its own, a free port. And the demo, which shows the same commands."""
import os
import pathlib
import shutil
import subprocess
import sys

from cluster import BIN, Place, run_tests, skip, skip_without_devices

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT = 240


def blocks_of(heading):
    """The fenced blocks below a heading of README.md."""
    text = (ROOT / "README.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return text.split("```")[1::2]


class Machine(Place):
    def __init__(self):
        super().__init__()
        # What a person has: the story's own paths, without the test's programs in front of them.
        self.environment.update(PATH=os.environ["PATH"], MOORING_SKIP_BUILD="1", MOORING_LISTEN="127.0.0.1:0",
                                MOORING_DEMO_PAUSE="0", NO_COLOR="1")
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            del self.environment[name]

    def __exit__(self, *_):
        subprocess.run([BIN / "moord", "dev", "--dir", self.directory / "home/.local/share/mooring", "--down", "--force"],
                       env=self.environment, capture_output=True, timeout=LIMIT)
        super().__exit__()

    def type(self, script):
        """What the shell prints. Each command must succeed. /mnt is empty and its own."""
        inside = f"mount -t tmpfs none /mnt && cd {ROOT} && set -e\n{script}"
        # The cluster stays behind when the shell ends: its output goes to a file, not to a pipe that it would keep open.
        path = self.directory / "typed"
        with open(path, "wb") as out:
            done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", inside], stdout=out,
                                  stderr=subprocess.STDOUT, env=self.environment, timeout=LIMIT, stdin=subprocess.DEVNULL)
        text = path.read_text()
        if done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode}\n{text}")
        return text


DOWN = "\n./up.sh --down\n"


def test_the_story_works_as_it_is_written():
    with Machine() as machine:
        text = machine.type("\n".join(blocks_of("The story")) + DOWN)
        for expected in ("v1 attached to node-1, device /", "AttachedElsewhere", "v1 detached from node-1",
                         "v1 attached to node-2, device /", "\nfastened\n", "volume v1 deleted",
                         "vm is ready on node-2", "vm is on node-2", "\naloft\n", "volume vm deleted"):
            assert expected in text, f"{expected!r} is missing in\n{text}"


def test_the_same_with_kubectl():
    if not shutil.which("kubectl"):
        return print("  (no kubectl here)")
    with Machine() as machine:
        text = machine.type("./up.sh\n" + "\n".join(blocks_of("With kubectl")) + DOWN)
        assert "volume.longhorn.io/v2 created" in text and "condition met" in text, text


def test_the_demo_shows_each_command_of_the_story():
    with Machine() as machine:
        text = machine.type("./up.sh --demo" + DOWN)
        for command in "\n".join(blocks_of("The story")).splitlines():
            if command and not command.startswith(("./up.sh", "export PATH")):
                assert f"$ {command}\n" in text, f"{command!r} was not shown in\n{text}"
        assert "\nfastened\n" in text


if __name__ == "__main__":
    skip_without_devices()
    if BIN != ROOT / "build/release/bin":
        skip("the story uses build/release")
    run_tests(sys.modules[__name__])
