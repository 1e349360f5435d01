"""`kode ps`, `logs`, `send`, `stop`, `answer` and `attach`: list the sessions in the background,
print and steer one, answer its question; or attach this terminal to one, until the person detaches
or the session ends."""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kode.plugin import (
    ConfigError,
    Parser,
    SessionError,
    Text,
    Transcript,
    kode_home,
    money,
    object_of,
    print_either,
    session_file,
    shorten,
)
from kode.plugins import worktrees
from kode.plugins.detached import holder, places
from kode.plugins.detached.places import Background
from kode.plugins.detached.start import launch_holder

SHOWN_S = 24 * 3600.0
"""How long `kode ps` shows a session that has ended; `kode ps --done` shows all."""

FORGOTTEN_S = 30 * 24 * 3600.0
"""How long a session without a worktree is listed at all after it has ended."""

STOPPED_S = holder.STOP_S + 10.0

TAKEN_S = 30.0
"""How long a prompt may take to accept an answer or a message: one that needs longer hangs."""

MESSAGE_BYTES = 100_000


def ps(argv: Sequence[str]) -> int:
    """Lists sessions, or with --merge or --drop settles a worktree. Raises: KodeError."""
    parser = Parser("kode ps", "List the sessions in the background.")
    parser.add_argument("--done", action="store_true", help="those that ended, with their changes")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--merge", metavar="ID", help="with --done: merge its branch")
    parser.add_argument("--drop", metavar="ID", help="with --done: remove its worktree and branch")
    arguments = parser.parse(argv)
    home, is_done = kode_home(), arguments.done
    if arguments.merge and arguments.drop:
        raise ConfigError("--merge and --drop contradict each other: give one of them.")
    if part := arguments.merge or arguments.drop:
        session = places.find_background(home, part)
        line = _merge_or_drop(session, merge=bool(arguments.merge))
        print_either({"id": session.id, "text": line}, [line], as_json=arguments.json)
        return 0
    faults: list[str] = []
    sessions = places.list_background(home, faults)
    _forget_old(sessions)
    now = time.time()
    shown = [
        session
        for session in sessions
        if (session.life != "alive" if is_done else session.life != "ended")
        or (not is_done and now - session.state.since < SHOWN_S)
    ]
    titles = [("ID", "STATE", "FOR", "TASK")] if shown else []
    rows = [*titles, *(_table_row(session, now) for session in shown)]
    lines = [line for session in shown for line in _detail_lines(session, is_done=is_done)]
    lines = lines if shown else ["No session in the background. `kode start TASK` starts one."]
    values = [_session_object(session) for session in shown]
    print_either(values, lines, rows=rows, as_json=arguments.json, faults=faults)
    return 0


def stop(argv: Sequence[str]) -> int:
    """`kode stop ID`: ends a session in good order, and kills what does not end in time. Raises:
    SessionError."""
    parser = Parser("kode stop", "End a session in the background; it can be resumed.")
    add_id(parser)
    home = kode_home()
    session = places.find_background(home, parser.parse(argv).id)
    if session.life == "alive":
        # A holder that does not answer is gone, and its prompt is ending.
        with contextlib.suppress(SessionError, OSError):
            with places.connect_to_holder(session.folder) as connection:
                connection.sendall(holder.encode_frame(holder.STOP))
        if not places.wait_for_end(session.folder, STOPPED_S):
            raise SessionError(
                f"{session.id} does not end. Look for its processes: `fuser {session.folder}/lock`."
            )
    print_either(lines=[describe_end(places.find_background(home, session.id))])
    return 0


def answer(argv: Sequence[str]) -> int:
    """`kode answer ID [WORDS]`: answers the question of a session, or without words prints it in
    full. Raises: SessionError, ConfigError."""
    about = "Answer the question that a session in the background waits for."
    parser = Parser("kode answer", about)
    add_id(parser)
    words = "yes, no, or no and what to do instead; without it the question is shown"
    parser.add_argument("words", nargs="*", metavar="WORDS", help=words)
    arguments = parser.parse(argv)
    _refuse_agents()
    home = kode_home()
    session = places.find_background(home, arguments.id)
    question = session.state.question
    if session.life != "alive" or question is None:
        raise SessionError(f"{session.id} waits for no answer. See `kode ps`.")
    if not arguments.words:
        text = f"{question['preview']}\n{question['reason']}".strip().splitlines()
        how = f"kode answer {session.id} yes · kode answer {session.id} no WHAT TO DO INSTEAD"
        print_either(lines=[question["title"], *text, *question["dangers"], how])
        return 0
    choice, message = parse_answer(" ".join(arguments.words))
    if choice == "once" and question["tool"] == "form":
        raise ConfigError(f"A form is filled in at its prompt: `kode attach {session.id}`.")
    value = {"number": question["number"], "choice": choice, "message": message}
    with places.connect_to_holder(session.folder) as connection:
        connection.sendall(holder.encode_frame(holder.ANSWER, json.dumps(value).encode()))
        _wait_until(
            lambda: (
                (places.find_background(home, session.id).state.question or {}).get("number")
                != question["number"]
            ),
            f"The session {session.id} did not take the answer",
        )
    verb = "Allowed once" if choice == "once" else "Denied"
    what = shorten(question["subject"] or question["title"], 1000)
    print_either(lines=[f"{verb}: {what}"])
    return 0


def send(argv: Sequence[str]) -> int:
    """`kode send ID TEXT`: sends a message as if it were typed at the prompt of the session, which
    is resumed if it has ended. Raises: SessionError, ConfigError, UserError."""
    parser = Parser("kode send", "Send a message to a session in the background.")
    add_id(parser)
    parser.add_argument("words", nargs="+", metavar="TEXT", help="what is typed at its prompt")
    arguments = parser.parse(argv)
    _refuse_agents()
    home, data = kode_home(), " ".join(arguments.words).encode("utf-8", "replace")
    if len(data) > MESSAGE_BYTES:
        raise ConfigError(f"A message has at most {MESSAGE_BYTES:,} bytes: name a file as @FILE.")
    session = places.find_background(home, arguments.id)
    if session.life != "alive":
        launch_holder(session.folder, places.take_lock(session.folder), session.spec)
    with places.connect_to_holder(session.folder) as connection:
        connection.sendall(holder.encode_frame(holder.MESSAGE, data))
        _wait_until(
            lambda: (
                places.find_background(home, session.id).state.received > session.state.received
            ),
            f"The session {session.id} did not take the message",
        )
    print_either(lines=[f"Sent. `kode logs {session.id[-6:]}` prints what it says."])
    return 0


def logs(argv: Sequence[str]) -> int:
    """`kode logs ID`: prints what a session has said and done, and its present state. Raises:
    SessionError, StorageError."""
    parser = Parser("kode logs", "Print what a session in the background has said and done.")
    add_id(parser)
    home = kode_home()
    session = places.find_background(home, parser.parse(argv).id)
    path, lines = session_file(home, session.session_id), list[str]()
    transcript = Transcript.read(path) if path.exists() else None
    for item in transcript.items if transcript else ():
        sign = "> " if getattr(item.entry, "role", "") == "user" else ""
        for part in item.parts:
            if part.type == "call":
                values = (object_of(part.call.arguments) or {}).values()
                subject = next((value for value in values if isinstance(value, str)), "")
                failed = " · failed" if part.result and part.result.is_error else ""
                lines.append(f"● {part.call.name} {shorten(subject, 100)}{failed}")
            elif isinstance(part, Text) and part.source in ("", "steering"):
                lines.append(f"{sign}{part.typed or part.text}")
    below = _detail_lines(session, is_done=False)
    ended = [describe_end(session)] if session.life == "ended" else []
    print_either(lines=[*lines, *(ended or below)], faults=transcript.faults if transcript else ())
    return 0


def parse_answer(line: str) -> tuple[str, str]:
    """Splits a typed answer into the choice, `once` or `no`, and a message to the model. Raises:
    ConfigError unless the answer is yes, or begins with no."""
    first, _, rest = line.strip().partition(" ")
    word = first.lower().rstrip(",.:;-")
    if word in ("yes", "y") and not rest.strip():
        return "once", ""
    if word in ("no", "n"):
        return "no", rest.strip()
    raise ConfigError(
        "Answer `yes`, `no`, or `no` and what to do instead. What is to count for longer is "
        "answered at its prompt: `kode attach ID`."
    )


def _refuse_agents() -> None:
    if os.environ.get("KODE_DEPTH", "0") != "0":
        raise ConfigError("An agent's command cannot answer or write for a person: ask them.")


def _wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    """Waits until `holds()`. Raises: SessionError that begins with `otherwise`, after `TAKEN_S`."""
    ends_by = time.monotonic() + TAKEN_S
    while not holds():
        if time.monotonic() > ends_by:
            raise SessionError(
                f"{otherwise} within {TAKEN_S:g} s. `kode ps` says whether it lives; `kode attach` "
                "opens its prompt."
            )
        time.sleep(0.05)


def _session_object(session: Background) -> dict[str, Any]:
    """A session as a JSON object for programs."""
    state, tree = session.state, session.spec.tree
    is_alive = session.life == "alive"
    question = state.question if is_alive else None
    names = ("since", "turns", "status", "result", "structured", "error", "cost_usd", "settled")
    return {
        "id": session.id,
        "session_id": session.session_id,
        "state": state.doing if is_alive else session.life,
        "started": session.spec.at,
        "task": session.spec.title,
        "name": session.name,
        "cwd": session.spec.cwd,
        "question": question,
        "files_changed": session.files,
        "branch": tree.branch if tree else None,
        "worktree": tree.root if tree else None,
        **{name: getattr(state, name) for name in names},
    }


def _table_row(session: Background, now: float) -> tuple[str, str, str, str]:
    state = session.state
    outcome = ": ".join(filter(None, ("ended", state.settled or state.status)))
    end = f"{outcome} {money(state.cost_usd)}".rstrip()
    doing = {"asks": "needs you", "works": "working"}.get(str(state.doing), str(state.doing))
    word = {"alive": doing, "killed": "killed", "ended": end}[session.life]
    return session.id, word, _format_time(now - state.since), shorten(session.title, 60)


def _format_time(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit:
            return f"{int(seconds // unit)}{name}"
    return f"{max(int(seconds), 0)}s"


def _detail_lines(session: Background, *, is_done: bool) -> list[str]:
    """The lines about a session below the table: its question, fault or changes."""
    id, state = session.id, session.state
    if session.life == "alive" and (question := state.question) is not None:
        what = shorten(f"{question['title']} {question['subject']}".rstrip(), 1000)
        return [f"{id} asks: {what[:200]} · kode answer {id}"]
    if session.life == "killed":
        return [f"{id} was killed: `kode attach {id}` resumes it."]
    if not is_done:
        is_over = session.life != "alive" or state.doing != "works"
        return [f"{id}: {shorten(state.error, 200)}"] if state.error and is_over else []
    if not session.files:
        return []
    where = f" on {session.branch}" if session.branch else ""
    settle = f"  kode ps --done --merge {id} · kode ps --done --drop {id}"
    lines = [f"{id} changed{where}: {worktrees.join_names(session.files)}"]
    return [*lines, settle] if where else lines


def _merge_or_drop(session: Background, *, merge: bool) -> str:
    """Merges or drops the worktree of a session that has ended. Raises: UserError."""
    id, tree = session.id, session.spec.tree
    if session.life == "alive":
        raise SessionError(f"{id} still runs. `kode stop {id}` ends it first.")
    if tree is None:
        raise SessionError(f"{id} has no worktree: its changes are in {session.spec.cwd} already.")
    if session.state.settled:
        raise SessionError(f"{id} was {session.state.settled} already.")
    if merge:
        files = worktrees.merge_worktree(tree, session.spec.title, session.session_id)
        line = f"Merged {tree.branch}: {', '.join(files) or 'no file differs'}."
    elif ref := worktrees.drop_worktree(tree, id, session.spec.title, session.session_id):
        line = (
            f"Dropped. `git branch {tree.branch} {ref}` in {tree.project} brings it back, without "
            "the files that git ignores."
        )
    else:
        line = f"{tree.branch} and its worktree were removed already, so nothing is kept of them."
    settled = {"settled": "merged" if merge else "dropped", "doing": "ended"}
    places.write_state(session.folder, session.state.model_copy(update=settled))
    return line


def _forget_old(sessions: list[Background]) -> None:
    """Removes from the list what ended long ago; the conversations can still be resumed."""
    for session in sessions:
        is_over = session.life == "ended" and not session.branch
        if is_over and time.time() - session.state.since > FORGOTTEN_S:
            with contextlib.suppress(OSError):
                places.forget_background(session.folder)


DETACH = b"\x1c"
"""Ctrl-\\, which the prompt does not use. It detaches only if typed alone, not in a paste."""

RESTORED = b"\x1b[?1049l\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?7h\x1b[?25h\x1b[0m\r\n\x1b[J"
"""Resets the modes that a prompt or a pager may have set in the terminal."""


def attach(argv: Sequence[str]) -> int:
    """Attaches this terminal, until detached or at the end. Raises: SessionError, ConfigError."""
    parser = Parser("kode attach", "Open a session in the background in this terminal.")
    parser.add_argument("id", metavar="ID", nargs="?", help=f"{ID_HELP}; none: the only one")
    home, id = kode_home(), parser.parse(argv).id
    session = places.find_background(home, id) if id else places.find_only_running(home)
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "`kode attach` needs a terminal. Without one: `kode ps --json`, `kode answer ID yes`."
        )
    if session.life != "alive":
        launch_holder(session.folder, places.take_lock(session.folder), session.spec)
    is_detached = False
    with (
        places.connect_to_holder(session.folder) as connection,
        contextlib.suppress(ConnectionError),  # its holder was killed
    ):
        is_detached = _relay_keys(connection, session)
    if is_detached:
        line = f"Detached. It keeps running: kode attach {session.id}"
    else:
        places.wait_for_end(session.folder, 5.0)
        line = describe_end(places.find_background(home, session.id))
    print_either(lines=[line])
    return 0


ID_HELP = "its id, or the beginning or end of it"


def add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=ID_HELP)


def describe_end(session: Background) -> str:
    """A sentence on how a session ended, or that it is still ending."""
    id, state = session.id, session.state
    if session.life == "alive":
        return f"{id} is ending. `kode ps` says when it has."
    if session.life == "killed":
        return f"{id} was killed. `kode attach {id}` resumes it."
    cost = f" · {money(state.cost_usd) or 'cost unknown'}" if state.turns else ""
    reason = f": {shorten(state.error, 1000)}" if state.error else ""
    return f"{id} ended: {state.status}{cost}{reason}"


def _relay_keys(connection: socket.socket, session: Background) -> bool:
    """Passes keys to the session and its output here. True once detached, False once it ended."""
    connection.setblocking(True)
    remote = connection.fileno()
    size = shutil.get_terminal_size()
    _write_output(b"\n" * (size.lines - 1) + b"\x1b[H\x1b[2J")
    _write_output(f"\x1b[2m{session.id} · Ctrl-\\ detaches\x1b[0m\r\n".encode())
    with _raw_terminal(), _watch_window() as changes:
        connection.sendall(holder.encode_frame(holder.ATTACH, _encode_size()))
        while True:
            ready = select.select([remote, 0, changes], [], [])[0]
            if changes in ready:
                os.read(changes, 1024)
                connection.sendall(holder.encode_frame(holder.RESIZE, _encode_size()))
            if remote in ready:
                output = connection.recv(65536)
                if not output:
                    return False
                _write_output(output)
            if 0 in ready:
                typed = os.read(0, 65536)
                if typed == DETACH or not typed:
                    return True
                connection.sendall(holder.encode_frame(holder.KEYS, typed))


def _encode_size() -> bytes:
    columns, rows = os.get_terminal_size(1)
    return holder.SIZE.pack(rows or 24, columns or 80)


def _write_output(output: bytes) -> None:
    while output:
        output = output[os.write(1, output) :]


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Puts the terminal in raw mode for the block, and restores it afterwards."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)
            _write_output(RESTORED)


@contextlib.contextmanager
def _watch_window() -> Iterator[int]:
    """Gives a descriptor that becomes readable when the window's size changes. SIGTERM and SIGHUP
    raise SystemExit in the block, so that it cleans up."""
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
