"""What the commands of one process share: a folder for copies and temporary files, and a loopback,
so that a server that one runs can be asked by the next."""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kode import beneath, paths
from kode.paths import real_path
from kode.sandbox.reach import SYSTEM_PATH, find_program

_PREFIX = "layers-"


@dataclass(frozen=True, kw_only=True)
class Store:
    """A folder for the layers of one process; its lock says that it is in use."""

    folder: Path
    lock: int

    def close(self) -> None:
        remove_tree(self.folder)
        os.close(self.lock)


def places(home: Path) -> list[Path]:
    """Where stores may lie, the best first, for a kode home."""
    temporary = (Path(real_path(folder)) for folder in ("/tmp", "/dev/shm"))
    return [paths.sandbox_folder(home), *(path / f"kode-{os.getuid()}" for path in temporary)]


def open_store(parents: Iterable[Path]) -> Store:
    """Opens a store below the first writable of `parents`. Raises: OSError if there is none."""
    tried = []
    for parent in parents:
        tried.append(str(parent))
        with contextlib.suppress(OSError):
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Until the new folder is locked, nobody may take it for an abandoned one.
            with beneath.closing(_lock_private(parent)):
                folder = parent / f"{_PREFIX}{secrets.token_hex(6)}"
                folder.mkdir(mode=0o700)
                return Store(folder=folder, lock=_lock(folder))
    raise OSError(f"make one of {', '.join(tried)} writable, for you alone")


def remove_abandoned(parents: Iterable[Path]) -> None:
    """Removes the stores of killed processes below `parents`. Never raises."""
    for parent in parents:
        abandoned: list[Store] = []
        with contextlib.suppress(OSError), beneath.closing(_lock_private(parent)):
            for folder in parent.glob(f"{_PREFIX}*"):
                with contextlib.suppress(OSError):
                    abandoned.append(Store(folder=folder, lock=_lock(folder)))
        for store in abandoned:
            store.close()


def _lock_private(parent: Path) -> int:
    """Locks a folder of stores. Raises: OSError, also where others can write: in a temporary
    folder, the name may be taken."""
    status = os.lstat(parent)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(parent)
    return _lock(parent, fcntl.LOCK_EX)


def _lock(folder: Path, kind: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int:
    """Raises: OSError where another process has it, and for what is no folder."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, kind)
    except OSError:
        os.close(lock)
        raise
    return lock


def remove_tree(folder: Path) -> None:
    """Removes a folder. Never raises; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        give_rights(folder)
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], capture_output=True, check=False)


def give_rights(folder: Path) -> None:
    """The kernel's own folders, and those of a command, may be unreadable."""
    folders = [folder]
    for each in folders:  # which grows meanwhile
        mode = stat.S_IMODE(os.lstat(each).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(each, mode | stat.S_IRWXU)
        with os.scandir(each) as entries:
            folders += [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]


TIMEOUT_S = 10.0  # takes milliseconds; a loaded machine is slow
_OWNER = 0xB701  # the call for the user namespace that owns a namespace (ioctl_ns(2))
_WHOLE = ("--ro-bind", "/", "/", "--unshare-user-try")


@dataclass(frozen=True, kw_only=True)
class Loopback:
    """A network namespace, which lives as long as a descriptor of it is open: nothing has to be
    watched or ended, not even after `kill -9`."""

    enter: tuple[str, ...] = ()
    """The beginning of an argument list that starts a program in it; empty where there is none."""
    descriptors: tuple[int, ...] = ()
    """Must be passed to the child under the same numbers."""

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def make_loopback() -> Loopback:
    """Makes the network, and tries it (about 10 ms); an empty one where this machine cannot."""
    bubblewrap, nsenter = map(find_program, ("bwrap", "nsenter"))
    if bubblewrap is None or nsenter is None:
        return Loopback()
    with contextlib.ExitStack() as opened:
        try:
            net = _open_network(bubblewrap)
            opened.callback(os.close, net)
            user = fcntl.ioctl(net, _OWNER)
            opened.callback(os.close, user)
            names = (f"--user=/proc/self/fd/{user}", f"--net=/proc/self/fd/{net}")
            enter = (nsenter, *names, "--preserve-credentials", "--")
            subprocess.run(
                [*enter, bubblewrap, *_WHOLE, "--unshare-pid", "--", "/bin/sh", "-c", ":"],
                pass_fds=(user, net),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return Loopback()
        opened.pop_all()
        return Loopback(enter=enter, descriptors=(user, net))


def _open_network(bubblewrap: str) -> int:
    """A descriptor of a new network with its loopback up. Raises: OSError, ValueError."""
    with subprocess.Popen(
        # It ends when its input does, so with kode at the latest.
        [bubblewrap, *_WHOLE, "--unshare-net", "--", "/bin/sh", "-c", "echo $$; read end"],
        env={"PATH": SYSTEM_PATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())  # it has started, so its network is complete
        net = os.open(f"/proc/{child}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        process.kill()
        return net
