"""The holder of one session: a process that owns the session's terminal, and little else.

`start` runs it as a program: FOLDER READY LOCK TASK ROWS COLUMNS COMMAND... It starts the command
(the prompt) in a new pseudo-terminal, keeps the end of its output, joins the terminals that attach,
and passes on answers. It ends with the prompt and leaves no process; ended itself, even by SIGKILL,
it takes the terminal with it, at which the prompt ends in good order.

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

SOCKET, LOCK = "socket", "lock"
"""In the session's folder. The lock's file has the token that whoever connects says first: a
command of an agent may reach the socket in some sandboxes, but reads no file of `$KODE_HOME`."""

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

QUERIES = (b"\x1b[6n", b"\x1b[c", b"\x1b[0c", b"\x1b[>c", b"\x1b[>0c")
"""Questions to a terminal in old output: answered now, the answers would be typed."""


# What is sent to a holder: frames of a letter, a length and the bytes. A terminal gets the output.
HELLO, ATTACH, KEYS, RESIZE, STOP, ANSWER = b"H", b"A", b"K", b"W", b"S", b"Q"
"""The token, which comes first; join with a size; what was typed; another size; end the session; an
answer to a question, which the prompt gets."""
WATCHED = b"T"
"""To the prompt: how many terminals are attached, as one byte."""

HEAD = struct.Struct("!cI")
SIZE = struct.Struct("!HH")
"""Rows, columns."""

MAX_BYTES = 1024 * 1024
"""A longer frame is no frame of kode's."""


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(payload)) + payload


def take_frame(received: bytearray) -> tuple[bytes, bytes] | None:
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


def is_of_this_user(peer: socket.socket) -> bool:
    """Whether the process at the other end is this user's. Where the system cannot say, the mode of
    the folder has decided already."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, option, 12))
    return bool(uid == os.getuid())


@dataclass(eq=False)
class Client:
    """A connection, and the terminal at its other end once it has attached."""

    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    is_trusted: bool = False
    """Whether it has said the token."""
    is_attached: bool = False


@dataclass
class Holder:
    master: int
    """kode's end of the session's terminal."""
    child: int
    prompt: socket.socket
    """Where the prompt reads frames."""
    selector: selectors.BaseSelector
    token: bytes
    widest: int
    """The most columns that it was drawn for."""
    output: bytearray = field(default_factory=bytearray)
    """Its end."""
    keys: bytearray = field(default_factory=bytearray)
    """Typed, and not taken by the prompt yet."""
    clients: list[Client] = field(default_factory=list)
    kill_at: float | None = None

    def read_output(self) -> bool:
        """Takes in what the prompt has written; False once there will be nothing more."""
        try:
            data = os.read(self.master, 65536)
        except BlockingIOError:
            return True
        except OSError:  # EIO: nobody has the terminal any more
            return False
        self.output += data
        if len(self.output) > KEPT_BYTES:
            cut = self.output.find(b"\n", len(self.output) - KEPT_BYTES) + 1
            del self.output[: cut or len(self.output) - KEPT_BYTES]
        for client in [client for client in self.clients if client.is_attached]:
            self.send(client, data)
        return bool(data)

    def send(self, client: Client, data: bytes = b"") -> None:
        """Sends what the other end takes now, and keeps the rest."""
        client.unsent += data
        try:
            while client.unsent:
                del client.unsent[: client.connection.send(client.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.part(client)
            return
        if len(client.unsent) > BEHIND_BYTES:
            self.part(client)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        self.selector.modify(client.connection, events, client)

    def part(self, client: Client) -> None:
        """Lets a terminal go."""
        if client in self.clients:
            self.clients.remove(client)
            self.selector.unregister(client.connection)
            client.connection.close()
            if client.is_attached:
                self.tell_watched()

    def tell_watched(self) -> None:
        """Says to the prompt how many terminals are attached."""
        number = sum(client.is_attached for client in self.clients)
        self.tell_prompt(WATCHED, bytes([min(number, 255)]))

    def tell_prompt(self, kind: bytes, payload: bytes) -> None:
        with contextlib.suppress(OSError):
            self.prompt.sendall(frame(kind, payload))

    def accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            if not is_of_this_user(connection):
                connection.close()
                return
            connection.setblocking(False)
            client = Client(connection)
            self.clients.append(client)
            self.selector.register(connection, selectors.EVENT_READ, client)

    def receive(self, client: Client) -> None:
        """Takes in what a terminal has sent."""
        try:
            data = client.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.received += data
        try:
            while client in self.clients and (taken := take_frame(client.received)) is not None:
                self.obey(client, *taken)
        except (ValueError, struct.error):
            data = b""
        if not data:
            self.part(client)

    def obey(self, client: Client, kind: bytes, payload: bytes) -> None:
        if kind == HELLO:
            client.is_trusted = hmac.compare_digest(payload, self.token)
        elif not client.is_trusted:
            self.part(client)
        elif kind == ATTACH:
            rows, columns = SIZE.unpack(payload)
            client.is_attached = True
            old = bytes(self.output).replace(WRAP, b"")
            for query in QUERIES:
                old = old.replace(query, b"")
            if columns < self.widest:
                folder = os.fsencode(os.path.basename(os.getcwd()))
                self.send(client, CUT % (self.widest, folder))
            self.send(client, NEVER_WRAP + old + WRAP + MODES)
            self.tell_watched()
            self.resize(rows, columns)
        elif kind == RESIZE:
            self.resize(*SIZE.unpack(payload))
        elif kind == KEYS and client.is_attached:
            self.keys += payload
            self.press()
        elif kind == ANSWER:
            self.tell_prompt(kind, payload)
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

    def serve(self, listener: socket.socket, woken: int) -> None:
        """Serves until the prompt has ended, and kills what it leaves in its group."""
        # It stays a zombie until its group is killed: nobody else can get its number meanwhile.
        watching = os.WEXITED | os.WNOWAIT
        while os.waitid(os.P_PID, self.child, watching | os.WNOHANG) is None:
            left = None if self.kill_at is None else self.kill_at - time.monotonic()
            if left is not None and left <= 0:
                self.kill()
                os.waitid(os.P_PID, self.child, watching)
                break
            for key, events in self.selector.select(left):
                if key.data is None:
                    if events & selectors.EVENT_WRITE:
                        self.press()
                    if events & selectors.EVENT_READ and not self.read_output():
                        self.selector.unregister(self.master)
                elif key.data is listener:
                    self.accept(listener)
                elif key.data is woken:
                    if signal.SIGTERM in os.read(woken, 1024):
                        self.stop()
                elif key.data in self.clients:
                    if events & selectors.EVENT_WRITE:
                        self.send(key.data)
                    if events & selectors.EVENT_READ and key.data in self.clients:
                        self.receive(key.data)
        self.kill()
        os.waitpid(self.child, 0)
        ends_by = time.monotonic() + 1.0
        while self.read_output() and time.monotonic() < ends_by and self.selector.select(0):
            pass
        for client in self.clients:
            client.connection.settimeout(1.0)
            with contextlib.suppress(OSError):
                client.connection.sendall(client.unsent)
            client.connection.close()


def main(argv: list[str]) -> int:
    folder, ready, lock, task, rows, columns, *command = argv
    os.set_inheritable(int(ready), False)
    cwd = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.chdir(folder)  # the name of a socket has at most 108 bytes
    listener = listen()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    frames, prompt = socket.socketpair()
    prompt.settimeout(1.0)
    master, slave = os.openpty()
    set_size(master, int(rows), int(columns))
    child = os.fork()
    if child == 0:
        passed = (frames.fileno(), int(lock), int(task))
        become(slave, cwd, passed, [*command, folder, *map(str, passed)])
    for descriptor in (slave, cwd, int(task)):
        os.close(descriptor)
    frames.close()
    os.set_blocking(master, False)
    with open(LOCK, "rb") as file:
        token = file.read()
    selector = selectors.DefaultSelector()
    selector.register(master, selectors.EVENT_READ, None)
    selector.register(listener, selectors.EVENT_READ, listener)
    selector.register(woken, selectors.EVENT_READ, woken)
    os.write(int(ready), b"1")
    os.close(int(ready))
    Holder(master, child, prompt, selector, token, int(columns)).serve(listener, woken)
    with contextlib.suppress(OSError):
        os.unlink(SOCKET)
    return 0


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


def listen() -> socket.socket:
    """The socket in the working directory, for this user alone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET)
    before = os.umask(0o177)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(SOCKET)
    os.umask(before)
    listener.listen(16)
    listener.setblocking(False)
    return listener


def set_size(terminal: int, rows: int, columns: int) -> None:
    with contextlib.suppress(OSError):
        termios.tcsetwinsize(terminal, (rows, columns))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        sys.exit(f"{error}")
