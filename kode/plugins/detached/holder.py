"""The holder of one session: a process that owns the session's terminal, and little else.

`start` runs it as a program: FOLDER READY CONTROL LOCK TASK ROWS COLUMNS COMMAND... It starts the
command (the prompt) in a new pseudo-terminal, keeps the end of its output, and joins the terminals
that attach. It ends with the prompt and leaves no process; ended itself, even by SIGKILL, it takes
the terminal with it, at which the prompt ends in good order.

Only the standard library: it lives as long as the session and should weigh nothing.
"""

import contextlib
import fcntl
import hmac
import os
import selectors
import signal
import socket
import struct
import sys
import termios
import time
from dataclasses import dataclass, field

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


TERMINAL = "terminal"
"""The socket for terminals, in the session's folder."""

KEPT_BYTES = 2 * 1024 * 1024
"""How much of the output is shown to a terminal that attaches: hours, since nothing that only moves
is drawn while nobody watches."""

BEHIND_BYTES = 4 * 1024 * 1024
"""A terminal that has not taken this much is let go: the session does not wait for it."""

STOP_S = 20.0
"""How long a session may take to end in good order before it is killed."""

NEVER_WRAP, WRAP = b"\x1b[?7l", b"\x1b[?7h"
"""Old lines may be wider than this terminal: cut, they keep the places of those that follow."""

CUT = b"\x1b[2mOlder lines have up to %d columns and are cut: kode session show %s\x1b[0m\r\n"

MODES = b"\x1b[?2004h\x1b[?1004h\x1b[?25h"
"""What the prompt asked the terminal for at its start: whole pastes, focus; and the cursor."""

ASKED = (b"\x1b[6n", b"\x1b[c", b"\x1b[0c", b"\x1b[>c", b"\x1b[>0c")
"""Questions to a terminal in old output: answered now, the answers would be typed."""


# What a terminal says: frames of a letter, a length and the bytes. What it hears is the output.
HELLO, ATTACH, KEYS, RESIZE, STOP = b"H", b"A", b"K", b"W", b"S"
"""The token, which comes first; join with a size; what was typed; another size; end the session."""

HEAD = struct.Struct("!cI")
SIZE = struct.Struct("!HH")
"""Rows, columns."""

MAX_BYTES = 1024 * 1024
"""A longer frame is no frame of kode's."""


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(payload)) + payload


def take(received: bytearray) -> tuple[bytes, bytes] | None:
    """Removes the first whole frame: kind and payload; None while there is none. Raises: ValueError
    for what is no frame."""
    if len(received) < HEAD.size:
        return None
    kind, length = HEAD.unpack_from(received)
    if length > MAX_BYTES:
        raise ValueError("too long")
    if len(received) < HEAD.size + length:
        return None
    payload = bytes(received[HEAD.size : HEAD.size + length])
    del received[: HEAD.size + length]
    return kind, payload


def is_own(peer: socket.socket, uid: int) -> bool:
    """Whether the process at the other end is this user's. Where the system cannot say, the mode of
    the folder has decided already."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, peer_uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, option, 12))
    return bool(peer_uid == uid)


@dataclass
class Joined:
    """A connection, and the terminal at its other end once it has attached."""

    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    known: bool = False
    """Whether it has said the token."""
    attached: bool = False


@dataclass
class Holder:
    master: int
    """kode's end of the session's terminal."""
    child: int
    presence: int
    """Where the prompt reads how many terminals are attached."""
    selector: selectors.BaseSelector
    token: bytes
    kept: bytearray = field(default_factory=bytearray)
    keys: bytearray = field(default_factory=bytearray)
    """Typed, and not taken by the prompt yet."""
    joined: list[Joined] = field(default_factory=list)
    widest: int = 0
    """The most columns that it was drawn for."""
    kill_at: float | None = None

    def output(self) -> bool:
        """Takes in what the prompt has written; False once there will be nothing more."""
        try:
            data = os.read(self.master, 65536)
        except BlockingIOError:
            return True
        except OSError:  # EIO: nobody has the terminal any more
            return False
        self.kept += data
        if len(self.kept) > KEPT_BYTES:
            cut = self.kept.find(b"\n", len(self.kept) - KEPT_BYTES) + 1
            del self.kept[: cut or len(self.kept) - KEPT_BYTES]
        for one in [one for one in self.joined if one.attached]:
            self.send(one, data)
        return bool(data)

    def send(self, one: Joined, data: bytes) -> None:
        one.unsent += data
        self.flush(one)

    def flush(self, one: Joined) -> None:
        try:
            while one.unsent:
                del one.unsent[: one.connection.send(one.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.part(one)
            return
        if len(one.unsent) > BEHIND_BYTES:
            self.part(one)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if one.unsent else 0)
        self.selector.modify(one.connection, events, one)

    def part(self, one: Joined) -> None:
        """Lets a terminal go."""
        if one not in self.joined:
            return
        self.joined.remove(one)
        self.selector.unregister(one.connection)
        one.connection.close()
        if one.attached:
            self.count()

    def count(self) -> None:
        """Says to the prompt how many terminals are attached."""
        number = sum(one.attached for one in self.joined)
        with contextlib.suppress(OSError):
            os.write(self.presence, b"%d" % min(number, 9))

    def join(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            if not is_own(connection, os.getuid()):
                connection.close()
                return
            connection.setblocking(False)
            one = Joined(connection)
            self.joined.append(one)
            self.selector.register(connection, selectors.EVENT_READ, one)

    def heard(self, one: Joined) -> None:
        """Takes in what a terminal has sent."""
        try:
            data = one.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.part(one)
            return
        one.received += data
        try:
            while one in self.joined and (taken := take(one.received)) is not None:
                self.obey(one, *taken)
        except (ValueError, struct.error):
            self.part(one)

    def obey(self, one: Joined, kind: bytes, payload: bytes) -> None:
        if kind == HELLO:
            one.known = hmac.compare_digest(payload, self.token)
        elif not one.known:
            self.part(one)
        elif kind == ATTACH:
            rows, columns = SIZE.unpack(payload)
            one.attached = True
            old = bytes(self.kept).replace(WRAP, b"")
            for asked in ASKED:
                old = old.replace(asked, b"")
            if columns < self.widest:
                folder = os.fsencode(os.path.basename(os.getcwd()))
                self.send(one, CUT % (self.widest, folder))
            self.send(one, NEVER_WRAP + old + WRAP + MODES)
            self.count()
            self.resize(rows, columns)
        elif kind == RESIZE:
            self.resize(*SIZE.unpack(payload))
        elif kind == KEYS and one.attached:
            self.keys += payload
            self.press()
        elif kind == STOP:
            self.stop()

    def press(self) -> None:
        """Types what fits into the prompt's terminal."""
        with contextlib.suppress(BlockingIOError, OSError):
            while self.keys:
                del self.keys[: os.write(self.master, self.keys)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.keys else 0)
        self.selector.modify(self.master, events, None)

    def resize(self, rows: int, columns: int) -> None:
        """Gives the terminal a size. The prompt draws itself again, also for the size it had."""
        set_size(self.master, rows, columns)
        self.widest = max(self.widest, columns)
        with contextlib.suppress(OSError):
            os.kill(self.child, signal.SIGWINCH)

    def stop(self) -> None:
        """Asks the prompt to end in good order; `kill_at` is when it is killed."""
        if self.kill_at is None:
            self.kill_at = time.monotonic() + STOP_S
            with contextlib.suppress(OSError):
                os.kill(self.child, signal.SIGTERM)

    def kill(self) -> None:
        for end in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                end(self.child, signal.SIGKILL)


def main(argv: list[str]) -> int:
    folder, ready, control, lock, task, rows, columns, *command = argv
    os.set_inheritable(int(ready), False)
    cwd = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    # Relative, since the name of a socket has at most 108 bytes.
    os.chdir(folder)
    before = os.umask(0o177)
    listener, answers = (bound(name) for name in (TERMINAL, control))
    os.umask(before)
    selector = selectors.DefaultSelector()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    heard, presence = os.pipe()
    os.set_blocking(presence, False)
    master, slave = os.openpty()
    set_size(master, int(rows), int(columns))
    child = os.fork()
    if child == 0:
        passed = (answers.fileno(), heard, int(lock), int(task))
        become(slave, cwd, passed, [*command, folder, *map(str, passed)])
    for descriptor in (slave, cwd, heard, int(task)):
        os.close(descriptor)
    answers.close()
    os.set_blocking(master, False)
    with open("token", "rb") as file:
        token = file.read()
    holder = Holder(master, child, presence, selector, token, widest=int(columns))
    selector.register(master, selectors.EVENT_READ, None)
    selector.register(listener, selectors.EVENT_READ, listener)
    selector.register(woken, selectors.EVENT_READ, woken)
    os.write(int(ready), b"1")
    os.close(int(ready))
    hold(holder, listener, woken)
    for name in (TERMINAL, control):
        with contextlib.suppress(OSError):
            os.unlink(name)
    return 0


def hold(holder: Holder, listener: socket.socket, woken: int) -> None:
    """Serves until the prompt has ended, and kills what it leaves in its group."""
    while True:
        left = None if holder.kill_at is None else max(0.0, holder.kill_at - time.monotonic())
        for key, events in holder.selector.select(left):
            if key.data is None:
                if events & selectors.EVENT_WRITE:
                    holder.press()
                if events & selectors.EVENT_READ and not holder.output():
                    holder.selector.unregister(holder.master)
            elif key.data is listener:
                holder.join(listener)
            elif key.data is woken:
                if signal.SIGTERM in os.read(woken, 1024):
                    holder.stop()
            elif isinstance(key.data, Joined) and key.data in holder.joined:
                if events & selectors.EVENT_WRITE:
                    holder.flush(key.data)
                if events & selectors.EVENT_READ and key.data in holder.joined:
                    holder.heard(key.data)
        # It stays a zombie until its group is killed: nobody else can get its number meanwhile.
        seen = os.WEXITED | os.WNOWAIT
        if os.waitid(os.P_PID, holder.child, seen | os.WNOHANG) is not None:
            break
        if holder.kill_at is not None and time.monotonic() >= holder.kill_at:
            holder.kill()
            os.waitid(os.P_PID, holder.child, seen)
            break
    holder.kill()
    os.waitpid(holder.child, 0)
    ends_by = time.monotonic() + 1.0
    while holder.output() and time.monotonic() < ends_by:
        if not holder.selector.select(0):
            break
    for one in holder.joined:
        one.connection.settimeout(1.0)
        with contextlib.suppress(OSError):
            one.connection.sendall(one.unsent)
        one.connection.close()


def become(slave: int, cwd: int, passed: tuple[int, ...], command: list[str]) -> None:
    """Makes this process the prompt, with the terminal as its own. Does not return."""
    try:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for descriptor in (0, 1, 2):
            os.dup2(slave, descriptor)
        for descriptor in passed:
            os.set_inheritable(descriptor, True)
        os.fchdir(cwd)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)
    finally:
        os._exit(127)


def bound(name: str) -> socket.socket:
    """A socket of the working directory that waits for connections."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
    made = socket.socket(socket.AF_UNIX)
    made.bind(name)
    made.listen(16)
    made.setblocking(False)
    return made


def set_size(terminal: int, rows: int, columns: int) -> None:
    with contextlib.suppress(OSError):
        termios.tcsetwinsize(terminal, (rows, columns))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        sys.exit(f"{error}")
