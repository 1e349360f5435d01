"""The holder of one session: a process that owns the session's terminal, and little else.

`start` runs it as a program: FOLDER LOCK ROWS COLUMNS COMMAND... It starts the command (the
prompt) in a new pseudo-terminal, passes it its own standard input, and writes a byte to standard
output when ready. It keeps the end of what the prompt prints, serves the terminals that attach, and
passes on answers. It ends with the prompt and leaves no process. If it is killed, even by SIGKILL,
the terminal is closed, and the prompt ends in good order.

It uses only the standard library, because it lives as long as the session and must stay small.
"""

import asyncio
import contextlib
import hmac
import os
import pty
import signal
import socket
import struct
import sys
import termios

SOCKET, LOCK = "socket", "lock"
"""Names in the session's folder. Whoever connects must first send the token in the lock's file: in
some sandboxes an agent's command can reach the socket, but it cannot read `$KODE_HOME`."""

KEPT_BYTES = 2 * 1024 * 1024
"""How much of the output a terminal that attaches is shown: some hours, because no animation is
drawn while nobody watches."""

BEHIND_BYTES = 4 * 1024 * 1024
"""A terminal with so much unread output is dropped: the session does not wait for it."""

STOP_S = 20.0
"""How long a session may take to end in good order before it is killed."""

NEVER_WRAP, WRAP = b"\x1b[?7l", b"\x1b[?7h"
"""Sent around old output: lines too wide for the terminal are cut, so that rows stay right."""

MODES = b"\x1b[?2004h\x1b[?1004h\x1b[?25h"
"""The modes that the prompt set at its start: bracketed paste, focus events, visible cursor."""

QUERIES = (b"\x1b[6n", b"\x1b[c", b"\x1b[0c", b"\x1b[>c", b"\x1b[>0c")
"""Queries removed from old output: a terminal's answers would now count as typed."""


# A holder is sent frames: a letter, a length and a payload. It sends a terminal plain output.
HELLO, ATTACH, KEYS, RESIZE, STOP = b"H", b"A", b"K", b"W", b"S"
"""The token, which comes first; attach, with a size; typed keys; a new size; end the session."""
ANSWER, MESSAGE = b"Q", b"M"
"""For the prompt: an answer to a question; a message of the person."""
VIEWERS = b"T"
"""To the prompt: how many terminals are attached, as one byte."""

HEAD = struct.Struct("!cI")
SIZE = struct.Struct("!HH")
"""Rows, columns."""

MAX_BYTES = 1024 * 1024
"""A longer frame is no frame of kode's."""

DISCONNECTS = (asyncio.IncompleteReadError, OSError, ValueError, struct.error)
"""Exceptions that mean that the other end is gone, or sends something other than frames."""


def encode_frame(kind: bytes, payload: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(payload)) + payload


async def read_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The kind and payload of the next frame. Raises: one of `DISCONNECTS`."""
    kind, length = HEAD.unpack(await reader.readexactly(HEAD.size))
    if length > MAX_BYTES:
        raise ValueError("too long")
    return kind, await reader.readexactly(length)


class Holder:
    """The terminal of a session, and the connections to it."""

    def __init__(self, child: int, master: int, prompt: socket.socket, token: bytes) -> None:
        self.child = child
        self.master = master
        """The holder's end of the session's terminal."""
        self.prompt = prompt
        """The socket from which the prompt reads frames."""
        self.token = token
        self.output = bytearray()
        """The last `KEPT_BYTES` of the prompt's output."""
        self.keys = bytearray()
        """Keys that were typed and not yet written to the terminal."""
        self.attached: set[asyncio.StreamWriter] = set()
        self.is_stopping = False

    def read_output(self) -> bool:
        """Reads the prompt's output and passes it on; False once there will be no more."""
        try:
            data = os.read(self.master, 65536)
        except BlockingIOError:
            return True
        except OSError:  # EIO: nobody has the terminal any more
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.master)
        self.output += data
        if len(self.output) > KEPT_BYTES:
            cut = self.output.find(b"\n", len(self.output) - KEPT_BYTES) + 1
            del self.output[: cut or len(self.output) - KEPT_BYTES]
        for writer in self.attached:
            writer.write(data)
            if writer.transport.get_write_buffer_size() > BEHIND_BYTES:
                writer.transport.abort()
        return bool(data)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection to its end."""
        with contextlib.suppress(*DISCONNECTS):
            kind, payload = await read_frame(reader)
            while kind == HELLO and hmac.compare_digest(payload, self.token):
                self.handle_frame(writer, *await read_frame(reader))
        if writer in self.attached:
            self.attached.remove(writer)
            self.tell_viewers()
        writer.close()

    def handle_frame(self, writer: asyncio.StreamWriter, kind: bytes, payload: bytes) -> None:
        if kind == ATTACH:
            old = bytes(self.output).replace(WRAP, b"")
            for query in QUERIES:
                old = old.replace(query, b"")
            writer.write(NEVER_WRAP + old + WRAP + MODES)
            self.attached.add(writer)
            self.tell_viewers()
            self.resize(*SIZE.unpack(payload))
        elif kind == RESIZE:
            self.resize(*SIZE.unpack(payload))
        elif kind == KEYS and writer in self.attached:
            self.keys += payload
            self.type_pending()
        elif kind in (ANSWER, MESSAGE):
            self.tell_prompt(kind, payload)
        elif kind == STOP:
            self.stop()

    def tell_viewers(self) -> None:
        self.tell_prompt(VIEWERS, bytes([min(len(self.attached), 255)]))

    def tell_prompt(self, kind: bytes, payload: bytes) -> None:
        with contextlib.suppress(OSError):
            self.prompt.sendall(encode_frame(kind, payload))

    def type_pending(self) -> None:
        """Writes as many of the typed keys as the prompt's terminal takes; the rest later."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while self.keys:
                del self.keys[: os.write(self.master, self.keys)]
        if self.keys:
            loop.add_writer(self.master, self.type_pending)
        else:
            loop.remove_writer(self.master)

    def resize(self, rows: int, columns: int) -> None:
        """Sets the terminal's size. The prompt is redrawn even if the size is the same."""
        set_size(self.master, rows, columns)
        self.signal(signal.SIGWINCH)

    def stop(self) -> None:
        """Asks the prompt to end in good order, and kills it if it has not after `STOP_S`."""
        if not self.is_stopping:
            self.is_stopping = True
            self.signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(STOP_S, self.kill)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.child, signal.SIGKILL)
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.child, number)

    async def run_until_end(self) -> None:
        """Serves until the prompt has ended, and kills what it left in its process group."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def look() -> None:
            # It stays a zombie until its group is killed, so that its number is not reused.
            if os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                ended.set()

        loop.add_signal_handler(signal.SIGCHLD, look)
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_reader(self.master, self.read_output)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)
        before = os.umask(0o177)
        server = await asyncio.start_unix_server(self.serve, SOCKET)
        os.umask(before)
        os.write(1, b"1")
        look()
        await ended.wait()
        self.kill()
        server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while self.read_output():
                    await asyncio.sleep(0)
                for writer in self.attached:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()


def main(argv: list[str]) -> int:
    folder, lock, rows, columns, *command = argv
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    frames, prompt = socket.socketpair()
    prompt.settimeout(1.0)
    spec = os.dup(0)
    child, master = pty.fork()
    if child == 0:
        become_prompt([*command, folder], (frames.fileno(), int(lock), spec))
    frames.close()
    os.close(spec)
    os.chdir(folder)  # the name of a socket has at most 108 bytes
    set_size(master, int(rows), int(columns))
    os.set_blocking(master, False)
    with open(LOCK, "rb") as file:
        token = file.read()
    try:
        asyncio.run(Holder(child, master, prompt, token).run_until_end())
    finally:
        os.waitpid(child, 0)
        with contextlib.suppress(OSError):
            os.unlink(SOCKET)
    return 0


def become_prompt(command: list[str], passed: tuple[int, ...]) -> None:
    """Replaces this process by the prompt, which inherits these open files. Never returns."""
    try:
        for descriptor in passed:
            os.set_inheritable(descriptor, True)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], [*command, *map(str, passed)])
    finally:
        os._exit(127)


def set_size(terminal: int, rows: int, columns: int) -> None:
    with contextlib.suppress(OSError):
        termios.tcsetwinsize(terminal, (rows, columns))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        sys.exit(f"{error}")
