"""The guest: Debian's cloud kernel and busybox, fetched and unpacked (not installed) into a directory of the build.

Booted once; its state is saved where it waits for "go", so that each test begins there. The directory is made by the
first test that needs it and used by the others; another recipe means another directory.
"""
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from support import DEADLINE, skip

HERE = pathlib.Path(__file__).parent
PLACE = pathlib.Path(os.environ["MOOR_GUEST_DIR"])
KERNEL = "linux-image-cloud-amd64"  # names the newest of its kind as its dependency
MODULES = ["virtio_pci", "virtio_blk"]  # and what they need
SIZE = 64 << 20  # of the volume; a saved state knows it


def run(*arguments, **options):
    return subprocess.run([str(one) for one in arguments], check=True, timeout=DEADLINE, stdout=subprocess.PIPE,
                          **options).stdout


def recipe_hash():
    digest = hashlib.sha256()
    for path in [HERE / "guest" / "beat.c", HERE / "guest" / "init", HERE / "guest_image.py", HERE / "qemu.py"]:
        digest.update(path.read_bytes())
    digest.update(run("qemu-system-x86_64", "--version"))
    return digest.hexdigest()[:16]


def fetch(directory):
    """The two packages, unpacked into directory/root."""
    depends = run("apt-cache", "depends", KERNEL).decode()
    real = [line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line]
    if not real:
        skip(f"apt does not know {KERNEL}")
    try:
        run("apt-get", "download", "-q", real[0], "busybox-static", cwd=directory, stderr=subprocess.DEVNULL)
    except subprocess.CalledProcessError:
        skip(f"cannot fetch {real[0]} and busybox-static with apt-get download")
    for package in directory.glob("*.deb"):
        run("dpkg", "-x", package, directory / "root")
        package.unlink()


def in_order(modules, wanted):
    """The files of the wanted modules and of all they need, each after what it needs. Which module needs which differs
    from kernel to kernel, so each is asked."""
    files = {path.stem.replace("-", "_"): path for path in modules.rglob("*.ko")}
    ordered = []

    def take(name):
        needs = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes())
        for other in needs[1].decode().split(",") if needs and needs[1] else []:
            take(other.replace("-", "_"))
        if files[name] not in ordered:
            ordered.append(files[name])

    for name in wanted:
        take(name)
    return ordered


def pack(directory):
    """kernel and initrd out of directory/root."""
    root, tree = directory / "root", directory / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "modules").mkdir()
    shutil.copy(next((root / "bin").glob("busybox")), tree / "bin" / "busybox")
    for number, module in enumerate(in_order(root / "lib" / "modules", MODULES)):
        shutil.copy(module, tree / "modules" / f"{number:02}-{module.name}")
    shutil.copy(HERE / "guest" / "init", tree / "init")
    (tree / "init").chmod(0o755)
    run("gcc", "-O2", "-static", "-Wall", "-Werror", "-o", tree / "beat", HERE / "guest" / "beat.c")
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    (directory / "initrd").write_bytes(run("cpio", "-o", "-H", "newc", "--quiet", cwd=tree, input=names.encode()))
    shutil.copy(next((root / "boot").glob("vmlinuz-*")), directory / "kernel")
    shutil.rmtree(root)
    shutil.rmtree(tree)


def guest_image():
    """The directory with kernel, initrd and ready.state."""
    if not shutil.which("qemu-system-x86_64"):
        skip("qemu-system-x86_64 is not installed")
    PLACE.mkdir(parents=True, exist_ok=True)
    image = PLACE / recipe_hash()
    with open(PLACE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if image.exists():
            return image
        for old in PLACE.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
        building = PLACE / "building"
        building.mkdir()
        fetch(building)
        pack(building)
        from qemu import save_ready_state  # it starts from this directory
        save_ready_state(building)
        building.rename(image)
    return image
