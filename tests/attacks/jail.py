"""A place where a command line can do no harm: namespaces of its own on a throw-away root.

    python -m tests.attacks.jail --hide bwrap -- PROGRAM ARGUMENT...

The root is a file system in memory. The programs of this machine are mounted there, its files are
not: `/etc` holds copies of what programs need, `/home`, `/root`, `/var`, `/tmp` are empty. Root in
it is an ordinary user of the machine (100000 when root starts it, else whoever does), so that what
belongs to the whole machine (the clock, `/proc/sys/kernel`, devices, modules) is out of reach
whatever happens. The network is a loopback that is the whole internet: every address leads there.

Sandboxes can still be made in it: nested namespaces, overlays, a fresh `/proc`. It imports nothing
of kode, and nothing outside the standard library.
"""

import argparse
import ctypes
import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FIRST_ID, IDS = 100_000, 65_536
REPOSITORY = Path(__file__).parents[2]

NOT_NAMED = 118
"""ENOTNAM: what a call that would set the clock, load a module or end the machine fails with
here. Nothing else fails so; a command that says "Not a XENIX named type file" got that far."""

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH = 2

_PROGRAMS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt", "nix", "sys", "proc")
_SETTINGS = (
    "alternatives ssl/certs ssl/openssl.cnf ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf "
    "protocols services mime.types os-release debian_version localtime java-17-openjdk "
    "java-21-openjdk maven perl vim terminfo profile bash.bashrc"
).split()
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_libc = ctypes.CDLL(None, use_errno=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hide", action="append", default=[], help="a program that is missing")
    parser.add_argument("--no-landlock", action="store_true", help="as an old kernel")
    parser.add_argument("program", nargs="+")
    options = parser.parse_args(argv)
    ours, theirs = socket.socketpair()
    root = Path(tempfile.mkdtemp(prefix="jail-"))
    child = os.fork()
    if child == 0:
        ours.close()
        os._exit(_inside(theirs, root, options))
    theirs.close()
    if ours.recv(1):  # it has its user namespace now
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{name}").write_text(f"0 {FIRST_ID} {IDS}")
        ours.send(b"m")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    root.rmdir()
    return code


def _inside(parent: socket.socket, root: Path, options: argparse.Namespace) -> int:
    namespaces = _NEWNS | _NEWCGROUP | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    cwd = os.getcwd()
    if os.geteuid() == 0:
        _unshare(_NEWNS)
        _build_root(root, options.hide, FIRST_ID)
        _unshare(_NEWUSER | namespaces)
        parent.send(b"u")
        parent.recv(1)
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    else:
        user, group = os.geteuid(), os.getegid()
        _unshare(_NEWUSER | _NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        _build_root(root, options.hide, 0)
        _unshare(namespaces)
    parent.close()
    os.chdir(cwd)
    if (first := os.fork()) == 0:
        os._exit(_first_process(options))
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])


def _first_process(options: argparse.Namespace) -> int:
    """Runs the program and takes in what it leaves behind; all ends with it."""
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV)
    _mount("devpts", "/dev/pts", "devpts", _NOSUID, "newinstance,ptmxmode=0666,mode=0620")
    _open_network()
    _fail_what_is_of_the_machine(no_landlock=options.no_landlock)
    program = os.fork()
    if program == 0:
        os.setsid()
        os.execvpe(options.program[0], options.program, os.environ)
    while True:
        pid, status = os.wait()
        if pid == program:
            return os.waitstatus_to_exitcode(status) & 0xFF


# ── the root ─────────────────────────────────────────────────────────────────────────────────


def _build_root(root: Path, hidden: Sequence[str], owner: int) -> None:
    _mount("none", "/", None, _REC | _PRIVATE)
    _mount("jail", str(root), "tmpfs", _NOSUID, "size=512m,mode=755")
    for name in _PROGRAMS:
        _show(Path("/") / name, root)
    _copy_settings(root / "etc")
    for name in ("home", "root", "srv", "mnt", "run", "dev/pts", "var/log", "var/lib", "var/cache"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp", "dev/shm"):
        (root / name).mkdir(parents=True)
        (root / name).chmod(0o1777)
    _make_devices(root / "dev")
    own = {Path(sys.base_prefix), Path(sys.prefix), REPOSITORY}
    for folder in sorted({Path(os.path.realpath(path)) for path in own}):
        if not (root / folder.relative_to("/") / ".").exists():
            _show(folder, root)
    if (root / "usr/games").is_dir():  # a place among the programs that root here may write to
        _mount("games", str(root / "usr/games"), "tmpfs", _NOSUID, "size=1m,mode=755")
    (root / ".hidden").touch(0o644)
    for name in hidden:
        for folder in ("usr/bin", "usr/local/bin", "bin", "usr/sbin"):
            if (root / folder / name).is_file() and not (root / folder).is_symlink():
                _mount(str(root / ".hidden"), str(root / folder / name), None, _BIND)
    _give(root, owner)
    (root / ".old").mkdir()
    os.chdir(root)
    if _libc.syscall(155 if os.uname().machine == "x86_64" else 41, b".", b".old") < 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    os.chdir("/")
    _checked(_libc.umount2(b"/.old", _DETACH), "umount2")
    os.rmdir("/.old")


def _show(path: Path, root: Path) -> None:
    """Has what is at a path of the machine be there."""
    target = root / path.relative_to("/")
    if path.is_symlink():
        target.symlink_to(path.readlink())
    elif path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        _mount(str(path), str(target), None, _BIND | _REC)


def _copy_settings(folder: Path) -> None:
    folder.mkdir()
    for name in _SETTINGS:
        source = Path("/etc") / name
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=True)
        elif source.exists():
            shutil.copy(source, folder / name)


def _make_devices(folder: Path) -> None:
    for name in _DEVICES:
        (folder / name).touch()
        _mount(f"/dev/{name}", str(folder / name), None, _BIND)
    (folder / "ptmx").symlink_to("pts/ptmx")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        (folder / name).symlink_to(f"/proc/self/fd{target}")


def _give(root: Path, owner: int) -> None:
    """Makes all that was made here belong to the root of the jail."""
    device = {root.stat().st_dev}
    if (root / "usr/games").is_mount():
        os.chown(root / "usr/games", owner, owner)
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        os.chown(folder, owner, owner)
        for entry in os.scandir(folder):
            status = entry.stat(follow_symlinks=False)
            if status.st_dev not in device:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                os.chown(entry.path, owner, owner, follow_symlinks=False)


# ── network and system calls ─────────────────────────────────────────────────────────────────


def _open_network() -> None:
    """Brings the loopback up, and leads every IPv4 address to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        import fcntl

        request = struct.pack("16sH14x", b"lo", 0x1 | 0x40)  # up and running
        fcntl.ioctl(control, 0x8914, request)
    # RTM_NEWROUTE: 0.0.0.0/0 is local, on interface 1, in the table of local addresses.
    route = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 255, 3, 254, 2, 0)
    route += struct.pack("=HHI", 8, 4, 1)
    message = struct.pack("=IHHII", 16 + len(route), 24, 0x1 | 0x4 | 0x400, 1, 0) + route
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as routes:
        routes.sendto(message, (0, 0))
        error = struct.unpack_from("=i", routes.recv(4096), 16)[0]
    if error:
        raise OSError(-error, "the route to everywhere could not be made")


_MACHINES = {
    # architecture, then clock_settime, settimeofday, reboot, init_module, finit_module, swapon,
    # kexec_load
    "x86_64": (0xC000003E, 227, 164, 169, 175, 313, 167, 246),
    "aarch64": (0xC00000B7, 112, 170, 142, 105, 273, 224, 104),
}
_LANDLOCK = 444
_NO_CALL = 38


def _fail_what_is_of_the_machine(*, no_landlock: bool) -> None:
    """Such calls would fail here anyhow; they fail in a way that shows that they were made."""
    architecture, *calls = _MACHINES[os.uname().machine]
    steps = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, 0x7FFF0000), (0x20, 0, 0, 0)]
    for number in calls:
        steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | NOT_NAMED)]
    if no_landlock:
        steps += [(0x15, 0, 1, _LANDLOCK), (0x06, 0, 0, 0x00050000 | _NO_CALL)]
    steps.append((0x06, 0, 0, 0x7FFF0000))
    data = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(data)
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(buffer))
    _checked(_libc.prctl(22, 2, program, 0, 0), "seccomp")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    done = _libc.mount(
        source.encode(), target.encode(), kind and kind.encode(), flags, options.encode() or None
    )
    _checked(done, f"mount {target}")


def _unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
