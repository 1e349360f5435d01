"""`kode attach ID`: this terminal becomes the session's, until it detaches or the session ends."""

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import termios
import tty
from collections.abc import Iterator, Sequence

from kode.plugin import (
    ConfigError,
    Parser,
    Transcript,
    kode_home,
    money,
    print_either,
    session_file,
    shorten,
)
from kode.plugins.detached import holder, places
from kode.plugins.detached.places import Background

DETACH = b"\x1c"
"""Ctrl-\\, which the prompt does not use. Counts alone: in a paste it is text."""

RESTORED = b"\x1b[?1049l\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?7h\x1b[?25h\x1b[0m\r\n\x1b[J"
"""Takes back what a prompt or a pager has asked of the terminal."""


def main(argv: Sequence[str]) -> int:
    """Returns when it was detached or the session has ended. Raises: SessionError, ConfigError."""
    parser = Parser("kode attach", "Open a session in the background in this terminal.")
    parser.add_argument("id", metavar="ID", nargs="?", help=f"{ID_HELP}; none: the only one")
    home, id = kode_home(), parser.parse(argv).id
    session = places.find(home, id) if id else places.find_only(home)
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "`kode attach` needs a terminal. Without one: `kode ps --json`, `kode answer ID yes`."
        )
    if session.life != "alive":
        return _resume(session)
    is_detached = False
    with (
        places.connect(session.folder) as connection,
        contextlib.suppress(ConnectionError),  # its holder was killed
    ):
        is_detached = _relay(connection, session)
    if is_detached:
        line = f"Detached. It keeps running: kode attach {session.id}"
    else:
        places.wait_for_end(session.folder, 5.0)
        line = end_line(places.find(home, session.id))
    print_either(lines=[line])
    return 0


ID_HELP = "its id, or the beginning or end of it"


def add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)


def end_line(session: Background) -> str:
    """How a session stands that is no longer running."""
    id, state = session.id, session.state
    if session.life == "alive":
        return f"{id} is ending. `kode ps` says when it has."
    if session.life == "killed":
        return f"{id} was killed. `kode attach {id}` resumes it."
    cost = f" · {money(state.cost_usd)}" if state.cost_usd is not None else ""
    reason = f": {shorten(state.error, 1000)}" if state.error else ""
    return f"{id} ended: {state.status}{cost}{reason}"


def _resume(session: Background) -> int:
    """One that is not running, in this terminal; with its task if no turn has begun."""
    from kode.plugins.detached.inside import Reporter, options_of

    path = session_file(kode_home(), session.session_id)
    options = options_of(session.spec)
    reporter = Reporter(folder=session.folder, options=options, state=session.state)
    with places.hold(session.folder):
        if not path.exists():
            return reporter.run()
        options.arguments.session_id = None
        if any(turn.number for turn in Transcript.read(path).turns):
            options.task = ""
        return reporter.run(session_id=session.session_id)


def _relay(connection: socket.socket, session: Background) -> bool:
    """Passes keys there and output here; True if it was detached, False if the session ended."""
    connection.setblocking(True)
    remote = connection.fileno()
    size = shutil.get_terminal_size()
    _write(b"\n" * (size.lines - 1) + b"\x1b[H\x1b[2J")
    _write(f"\x1b[2m{session.id} · Ctrl-\\ detaches\x1b[0m\r\n".encode())
    with _raw_terminal(), _window_changes() as changes:
        connection.sendall(holder.frame(holder.ATTACH, _size()))
        while True:
            ready = select.select([remote, 0, changes], [], [])[0]
            if changes in ready:
                os.read(changes, 1024)
                connection.sendall(holder.frame(holder.RESIZE, _size()))
            if remote in ready:
                output = connection.recv(65536)
                if not output:
                    return False
                _write(output)
            if 0 in ready:
                typed = os.read(0, 65536)
                if typed == DETACH or not typed:
                    return True
                connection.sendall(holder.frame(holder.KEYS, typed))


def _size() -> bytes:
    columns, rows = os.get_terminal_size(1)
    return holder.SIZE.pack(rows or 24, columns or 80)


def _write(output: bytes) -> None:
    while output:
        output = output[os.write(1, output) :]


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """The terminal passes every key on; afterwards it is as before."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)
            _write(RESTORED)


@contextlib.contextmanager
def _window_changes() -> Iterator[int]:
    """A descriptor that can be read when the window has another size. SIGTERM and SIGHUP end the
    block like any error."""
    changes, wake = os.pipe()
    os.set_blocking(wake, False)

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGHUP)

    actions = {signal.SIGWINCH: lambda *_: None, signal.SIGTERM: end, signal.SIGHUP: end}
    before = {number: signal.signal(number, action) for number, action in actions.items()}
    wakes = signal.set_wakeup_fd(wake)
    try:
        yield changes
    finally:
        signal.set_wakeup_fd(wakes)
        for number, action in before.items():
            signal.signal(number, action)
        os.close(changes)
        os.close(wake)
