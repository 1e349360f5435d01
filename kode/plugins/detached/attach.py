"""`kode attach ID`: this terminal becomes the session's, until it detaches or the session ends."""

import argparse
import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from pathlib import Path

from kode.plugin import (
    EXIT_OK,
    ConfigError,
    Parser,
    Screen,
    StorageError,
    last_turn,
    money,
    one_line,
    paths,
    print_either,
    read_session,
)
from kode.plugins.detached import holder, places, talk
from kode.plugins.detached.flags import ONE_TURN, arguments_of, open_with_task, screen_of
from kode.plugins.detached.holder import TERMINAL
from kode.plugins.detached.places import Background

DETACH = b"\x1c"
"""Ctrl-\\, which the prompt does not use. Counts alone: in a paste it is text."""

RESTORED = b"\x1b[?1049l\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?7h\x1b[?25h\x1b[0m\r\n\x1b[J"
"""Takes back what a prompt or a pager has asked of the terminal."""


def main(argv: Sequence[str]) -> int:
    """Returns when it was detached or the session has ended. Raises: SessionError, ConfigError."""
    parser = Parser("kode attach", "Open a session in the background in this terminal.")
    parser.add_argument("id", metavar="ID", help="its id, or the beginning or end of it")
    id = parser.parse(argv).id
    home = paths.home()
    one = places.find(home, id)
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "`kode attach` needs a terminal. Without one: `kode ps --json`, `kode answer ID yes`."
        )
    if one.life != "alive":
        return _resume(one)
    detached = False
    with (
        contextlib.closing(talk.connect(one.folder, TERMINAL)) as connection,
        contextlib.suppress(ConnectionError),  # its holder was killed
    ):
        detached = _relay(connection, one)
    if detached:
        print_either(None, [f"Detached. It keeps running: kode attach {one.id}"], as_json=False)
        return EXIT_OK
    places.wait_for_end(one.folder, 5.0)
    print_either(None, [ended_line(places.find(home, one.id))], as_json=False)
    return EXIT_OK


def ended_line(one: Background) -> str:
    """How a session stands that is no longer running."""
    if one.life == "alive":
        return f"{one.id} is ending. `kode ps` says when it has."
    if one.life == "killed":
        return f"{one.id} was killed. `kode attach {one.id}` resumes it."
    cost = f" · {money(one.state.cost_usd)}" if one.state.cost_usd is not None else ""
    why = f": {one_line(one.state.error)}" if one.state.error else ""
    return f"{one.id} ended: {one.state.status}{cost}{why}"


def _resume(one: Background) -> int:
    """One that is not running, in this terminal; with its task if no turn has begun."""
    arguments = arguments_of(one.spec)
    arguments.screen = screen = screen_of(arguments, Path(one.spec.cwd))
    try:
        return _open(arguments, one, screen)
    finally:
        if screen.ended is not None:
            said = {"doing": "ended", "since": time.time(), **places.outcome(screen.ended)}
            with contextlib.suppress(StorageError):  # the session matters more
                places.write_state(one.folder, one.state.model_copy(update=said))


def _open(arguments: argparse.Namespace, one: Background, screen: Screen) -> int:
    from kode.plugin import open_repl

    path = paths.session_file(paths.home(), one.session_id)
    if not path.exists():
        return open_with_task(arguments, one.spec, places.piped(one.folder))
    _, entries, _ = read_session(path)
    for name in (*arguments.of_plugins, *ONE_TURN):  # what they began stands in the session
        setattr(arguments, name, None)
    task = None if last_turn(entries) else one.spec.task
    return open_repl(arguments, task, one.session_id, screen)


def _relay(connection: socket.socket, one: Background) -> bool:
    """Passes keys there and output here; True if it was detached, False if the session ended."""
    connection.setblocking(True)
    there = connection.fileno()
    size = shutil.get_terminal_size()
    os.write(1, b"\n" * (size.lines - 1) + b"\x1b[H\x1b[2J")
    os.write(1, f"\x1b[2m{one.id} · Ctrl-\\ detaches\x1b[0m\r\n".encode())
    with _raw(), _told() as told:
        connection.sendall(holder.frame(holder.ATTACH, _size()))
        while True:
            ready = select.select([there, 0, told], [], [])[0]
            if told in ready:
                os.read(told, 1024)
                connection.sendall(holder.frame(holder.RESIZE, _size()))
            if there in ready:
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
def _raw() -> Iterator[None]:
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
def _told() -> Iterator[int]:
    """A descriptor that can be read when the window has another size. SIGTERM and SIGHUP end the
    block like any error."""
    heard, tell = os.pipe()
    os.set_blocking(tell, False)

    def hung(*_: object) -> None:
        raise SystemExit(128 + signal.SIGHUP)

    actions = {signal.SIGWINCH: lambda *_: None, signal.SIGTERM: hung, signal.SIGHUP: hung}
    before = {number: signal.signal(number, action) for number, action in actions.items()}
    wakes = signal.set_wakeup_fd(tell)
    try:
        yield heard
    finally:
        signal.set_wakeup_fd(wakes)
        for number, action in before.items():
            signal.signal(number, action)
        os.close(heard)
        os.close(tell)
