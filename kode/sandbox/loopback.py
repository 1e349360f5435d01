"""The network of a session's commands in the sandbox: a loopback of their own, shared by all of
them, so that a server that one command runs can be asked by the next.

A namespace lives as long as a descriptor of it is open. bubblewrap makes one and ends: nothing has
to be watched or ended, not even after `kill -9`. `nsenter` starts the commands in it.
"""

import fcntl
import json
import os
import subprocess
from dataclasses import dataclass

from kode.sandbox.reach import SYSTEM_PATH, find_program

TIMEOUT_S = 10.0  # takes milliseconds; a loaded machine is slow

_OWNER = 0xB701
"""The call for the user namespace that owns a namespace (ioctl_ns(2))."""
_WHOLE = ("--ro-bind", "/", "/", "--unshare-user-try")


@dataclass(frozen=True, kw_only=True)
class Loopback:
    enter: tuple[str, ...]
    """The beginning of an argument list that starts a program in it."""
    descriptors: tuple[int, ...]
    """Must be passed to the child under the same numbers."""

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def make_loopback() -> Loopback | None:
    """Makes the network, and tries it (about 10 ms); None where this machine cannot."""
    bubblewrap, nsenter = map(find_program, ("bwrap", "nsenter"))
    if bubblewrap is None or nsenter is None:
        return None
    loopback: Loopback | None = None
    try:
        user, net = descriptors = _open_namespaces(bubblewrap)
        names = (f"--user=/proc/self/fd/{user}", f"--net=/proc/self/fd/{net}")
        enter = (nsenter, *names, "--preserve-credentials", "--")
        loopback = Loopback(enter=enter, descriptors=descriptors)
        subprocess.run(
            [*enter, bubblewrap, *_WHOLE, "--unshare-pid", "--", "/bin/sh", "-c", ":"],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        if loopback is not None:
            loopback.close()
        return None
    return loopback


def _open_namespaces(bubblewrap: str) -> tuple[int, int]:
    """Descriptors of the user namespace that owns a new network, and of that network, with its
    loopback up. Raises: OSError, ValueError, KeyError."""
    # Not a pipe: bubblewrap writes to it before it lets its child go on, and ended by SIGPIPE, as
    # where kode was just killed, it would leave that child waiting for ever.
    with open(os.memfd_create("bubblewrap"), "rb") as status:
        argv = [bubblewrap, *_WHOLE, "--unshare-net", "--json-status-fd", str(status.fileno())]
        with subprocess.Popen(
            # It ends when its input does, so with kode at the latest.
            [*argv, "--", "/bin/sh", "-c", "echo; read end"],
            env={"PATH": SYSTEM_PATH},
            pass_fds=(status.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            if not process.stdout.readline():  # it has started, so its network is complete
                raise OSError("no network namespace")
            line = os.pread(status.fileno(), 4096, 0).partition(b"\n")[0]
            path = f"/proc/{json.loads(line)['child-pid']}/ns/net"
            net = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            user = fcntl.ioctl(net, _OWNER)
            process.kill()
            return user, net
