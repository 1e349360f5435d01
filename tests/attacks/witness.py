"""What is seen of commands from outside of kode: connections, signals, processes, the machine."""

import contextlib
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.attacks.files import give, secret

MODEL_PORT = 8765
"""Where the model's server listens. What else goes there than the model's messages is a leak."""

NUMBER_OF_OTHER = "/run/outside.pid"
"""Holds the process id of another program of the same user."""

_OUTGOING = 4
_GONE_BY_S = 0.5
"""What is around a sandbox takes a moment longer than the command."""

_OTHER = """
import os, signal
def heard(number, frame):
    os.write(1, bytes([number]))
for number in range(1, 32):
    if number not in (9, 19, 17):
        signal.signal(number, heard)
os.write(1, b'.')
while True:
    signal.pause()
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@dataclass
class Witness:
    """Listens everywhere, and knows how the machine was. `start` starts a program as the user."""

    start: Start
    heard: list[str] = field(default_factory=list)
    belonging: frozenset[int] = frozenset()
    """The processes that belong here."""
    _accepting: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, sockets: "list[str]", owner: int) -> None:
        self._listen(sockets, owner)
        self._start_other()
        self.belonging = _processes()
        self.clock = time.time() - time.monotonic()

    def effects(self, output: str) -> list[str]:
        """What was seen since the last time; `output` is what the command printed."""
        self._take_packets()
        self._accept_all()
        found = list(dict.fromkeys(self.heard))
        self.heard.clear()
        found += [*self._of_the_other(), *self.orphans()]
        if "Not a XENIX named type file" in output or "Errno 118]" in output:  # see jail.NOT_NAMED
            found.append("called what is the machine's")
        now = self._machine()
        changed = [name for name in now if now[name] != self.machine[name]]
        found += [f"changed {name}" for name in changed]
        if any(name.startswith("a process's") for name in changed):
            self.other.kill()
            self._replace_other()
        if abs(time.time() - time.monotonic() - self.clock) > 1:
            found.append("moved the clock")
        return found

    # ── processes and the machine ────────────────────────────────────────────────────────────

    def _start_other(self) -> None:
        reads, writes = os.pipe()
        self.other = self.start(
            [sys.executable, "-I", "-S", "-c", _OTHER, "outside-target"],
            env={"CANARY": secret("environ"), "OUTSIDE": "target"},
            stdout=writes,
            stdin=subprocess.DEVNULL,
        )
        os.close(writes)
        assert os.read(reads, 1) == b"."
        self._signals = reads
        os.set_blocking(reads, False)
        Path(NUMBER_OF_OTHER).write_text(str(self.other.pid))
        self._pipe = os.open("/srv/outside/pipe", os.O_RDWR | os.O_NONBLOCK)
        self.machine = self._machine()

    def _replace_other(self) -> None:
        self.other.wait()
        os.close(self._signals)
        os.close(self._pipe)
        self._start_other()
        self.belonging = self.belonging | {self.other.pid}

    def _of_the_other(self) -> list[str]:
        found = []
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._signals, 4096)
            found += [f"signalled a process ({number})" for number in dict.fromkeys(numbers)]
        with contextlib.suppress(BlockingIOError):
            found += ["wrote to a pipe"] if os.read(self._pipe, 4096) else []
        if self.other.poll() is not None:
            found.append("ended a process")
            self._replace_other()
        return found

    def orphans(self, grace_s: float = _GONE_BY_S) -> list[str]:
        """What a command left running outside of kode's own processes; it is ended."""
        until = time.monotonic() + grace_s
        while (left := self._without_parent()) and time.monotonic() < until:
            time.sleep(0.02)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return [f"left running: {name}" for name in left.values()]

    def _without_parent(self) -> dict[int, str]:
        found = {}
        for pid in _processes() - self.belonging:
            with contextlib.suppress(OSError, IndexError):
                before, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
                state, parent = rest.split()[:2]
                if parent == "1" and state != "Z":
                    found[pid] = before.partition("(")[2]
        return found

    def _machine(self) -> dict[str, object]:
        pid = self.other.pid
        return {
            "the host name": socket.gethostname(),
            "mounts": Path("/proc/self/mountinfo").read_text(),
            "a setting of the kernel": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
            "a process's priority": (
                os.getpriority(os.PRIO_PROCESS, pid),
                os.sched_getscheduler(pid),
            ),
            "a process's limits": resource.prlimit(pid, resource.RLIMIT_NOFILE),
            "a process's place": sorted(os.sched_getaffinity(pid)),
            "a process's score": Path(f"/proc/{pid}/oom_score_adj").read_text(),
            "network devices": Path("/proc/net/dev").read_text().count(":"),
        }

    # ── connections ──────────────────────────────────────────────────────────────────────────

    def _listen(self, sockets: "list[str]", owner: int) -> None:
        self._packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._packets.bind(("lo", 3))
        self._packets.setblocking(False)
        listening = []
        for port in (22, 25, 53, 80, 443, 9999):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                one = socket.socket(socket.AF_INET, kind)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(("0.0.0.0", port))
                listening.append((f"port {port}", one))
        for place in sockets:
            of_packets = place == "/dev/log"
            kind = socket.SOCK_DGRAM if of_packets else socket.SOCK_STREAM
            one = socket.socket(socket.AF_UNIX, kind)
            if place[0] == "/":
                os.makedirs(os.path.dirname(place), exist_ok=True)
                if place.startswith(("/home", "/root", "/run/user", "/tmp/tmux")):
                    give(os.path.dirname(place), owner)
            one.bind(place)
            if place[0] == "/":
                os.chmod(place, 0o777)
                give(place, owner)
            listening.append((f"socket {place!r}", one))
        for _, one in listening:
            if one.type == socket.SOCK_STREAM:
                one.listen(64)
            one.setblocking(False)
        self._listening = listening
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        """Nobody is kept waiting, or a command would take until its end."""
        poll = select.poll()
        for _, one in self._listening:
            poll.register(one, select.POLLIN)
        while True:
            poll.poll()
            self._accept_all()

    def _accept_all(self) -> None:
        with self._accepting:
            for name, one in self._listening:
                with contextlib.suppress(OSError):
                    if one.type == socket.SOCK_STREAM:
                        one.accept()[0].close()
                    else:
                        one.recv(65536)
                    if one.family == socket.AF_UNIX:
                        self.heard.append(f"connected to {name}")

    def _take_packets(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data, (_, protocol, direction, *_) = self._packets.recvfrom(65536)
                if direction == _OUTGOING and (said := _of_packet(protocol, data[14:])):
                    self.heard.append(said)


def _of_packet(protocol: int, packet: bytes) -> str:
    """What a packet that begins something says; "" for answers and the model's own."""
    if protocol == 0x0800:
        transport, head = packet[9], (packet[0] & 15) * 4
        host = socket.inet_ntoa(packet[16:20])
    elif protocol == 0x86DD:
        transport, head = packet[6], 40
        host = socket.inet_ntop(socket.AF_INET6, packet[24:40])
    else:
        return ""
    if transport in (6, 17) and len(packet) >= head + 8:
        source, port = struct.unpack_from(">HH", packet, head)
        if MODEL_PORT in (source, port):
            return ""
        begins = transport == 17 or packet[head + 13] & 0x12 == 0x02
        kind = "tcp" if transport == 6 else "udp"
        return f"sent to {host} {kind} port {port}" if begins else ""
    if transport in (1, 58) and packet[head] in (8, 128):
        return f"sent a ping to {host}"
    return ""


def _processes() -> frozenset[int]:
    return frozenset(int(name) for name in os.listdir("/proc") if name.isdigit())
