"""The files of each session in the background: a folder below `$KODE_HOME/detached`.

    spec.json    what was started, without credentials; never changed
    state.json   what the session does; replaced by the prompt at each change
    lock         locked as long as a process of the session lives; contains the socket's token
    socket       the socket of the holder

Whether a session is alive is told by its lock, not by a process id, which may have been reused.
"""

import contextlib
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, PlainSerializer, ValidationError

from kode.plugin import (
    SessionError,
    TurnEnded,
    make_folder,
    real_path,
    redact_secrets,
    remove_tree,
    replace_file,
    session_file,
    set_aside,
    storage_errors,
    summarize_session,
)
from kode.plugins.detached import holder
from kode.plugins.detached.holder import LOCK, SOCKET
from kode.plugins.worktrees import Worktree

SPEC, STATE = "spec.json", "state.json"
LOOKS = 1_000  # attempts to lock: others lock for a moment to see if the session is alive

WAIT_S = 10.0
"""Time limit for an answer of a holder: one that takes longer hangs."""

Redacted = Annotated[str, PlainSerializer(redact_secrets, when_used="json")]
"""A text that may hold credentials, which are masked when it is written to disk."""
RedactedValues = Annotated[Any, PlainSerializer(redact_secrets, when_used="json")]

Doing = Literal["opening", "works", "asks", "idle", "ended"]


class Spec(BaseModel, frozen=True):
    """What was started: a session's command line, its task, and where it works."""

    id: str
    words: tuple[Redacted, ...]
    """The command line after `kode start`."""
    title: Redacted
    """The task or the goal in the person's words, for lists."""
    task: Redacted
    """"" where a flag of a plug-in asks for something."""
    piped: tuple[Redacted, ...] = ()
    """Texts that were piped in along with the task."""
    cwd: str
    """The folder that the session works in."""
    here: str = ""
    """The folder in which its command line was typed."""
    at: float
    """When, in seconds since 1970."""
    tty: str = ""
    """The terminal that the session was started in, to notify the person; "" for none."""
    tree: Worktree | None = None


class SessionState(BaseModel, frozen=True):
    """What a session does, as its prompt last reported it."""

    doing: Doing = "opening"
    since: float = 0.0
    session: str = ""
    """The id of the conversation that is open now: a person who attached may have switched."""
    question: RedactedValues = None
    """The open question: some fields of a `Question`, and its `number`; None for none."""
    turns: int = 0
    status: str = ""
    """The status of the last turn that ended."""
    result: Redacted = ""
    structured: RedactedValues = None
    """The answer to `--json-schema`."""
    error: Redacted = ""
    cost_usd: float | None = None
    """Cost of all turns; None before the first one has ended, or if a price is unknown."""
    files: tuple[str, ...] = ()
    """The files that its turns changed."""
    received: int = 0
    """How many messages of `kode send` it has received."""
    settled: str = ""
    """What became of its worktree: "merged" or "dropped"."""


Life = Literal["alive", "ended", "killed"]


@dataclass(frozen=True, kw_only=True)
class Background:
    """A session in the background, as it was when its files were read."""

    folder: Path
    spec: Spec
    state: SessionState
    life: Life

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def session_id(self) -> str:
        return self.state.session or self.spec.id

    @property
    def branch(self) -> str:
        """The branch of its worktree; "" without one, and after it was merged or dropped."""
        return self.spec.tree.branch if self.spec.tree and not self.state.settled else ""

    @property
    def name(self) -> str:
        """The name that the person gave the session; "" for none."""
        home = self.folder.parent.parent
        summary = summarize_session(session_file(home, self.session_id))
        return summary.name if summary else ""

    @property
    def title(self) -> str:
        """Its name, if any, and its task."""
        return " · ".join(filter(None, (self.name, self.spec.title)))

    @property
    def files(self) -> list[str]:
        """The files that its turns changed, relative to the folder that it works in."""
        return [path.removeprefix(f"{self.spec.cwd}/") for path in self.state.files]


def new_id() -> str:
    """A new id: the time in UTC, and six hex digits."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def background_folder(home: Path) -> Path:
    return home / "detached"


def create_folder(home: Path, spec: Spec) -> tuple[Path, int]:
    """Creates the folder of a new session; returns it and an open file that holds its lock. The
    processes that inherit the file share the lock until the last ends. Raises: StorageError."""
    folder = background_folder(home) / spec.id
    make_folder(folder)
    with storage_errors(folder / LOCK, "create"):
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Locked before the spec exists, so that whoever finds the session finds it alive.
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, secrets.token_hex(16).encode())
    write_state(folder, SessionState(since=spec.at))
    replace_file(folder / SPEC, spec.model_dump_json(indent=1).encode())
    return folder, lock


def describe_outcome(ended: TurnEnded) -> dict[str, Any]:
    """How a task ended, for a state: a goal has several turns, and an answer may not fit its
    schema."""
    return {"status": ended.status, "error": ended.error or "", "structured": ended.structured}


def write_state(folder: Path, state: SessionState) -> None:
    """Raises: StorageError."""
    replace_file(folder / STATE, state.model_dump_json(indent=1).encode())


def list_background(home: Path, faults: list[str]) -> list[Background]:
    """All sessions in the background, oldest first. Adds a sentence to `faults` for each that is
    damaged or unreadable, and removes the sockets of dead ones. Raises: StorageError."""
    with storage_errors(background_folder(home), "read"):
        try:
            names = sorted(os.listdir(background_folder(home)))
        except FileNotFoundError:
            return []
    sessions = (
        _read_session(background_folder(home) / name, faults) for name in names if name[0] != "."
    )
    return sorted(filter(None, sessions), key=lambda session: session.spec.at)


def find_background(home: Path, part: str) -> Background:
    """The session whose id begins or ends with `part`, or whose branch or name is `part`. Raises:
    SessionError if there is none, or several; StorageError."""
    faults: list[str] = []
    sessions = list_background(home, faults)
    ways: tuple[Callable[[Background], bool], ...] = (
        lambda each: each.id == part,
        lambda each: bool(part) and (each.id.startswith(part) or each.id.endswith(part)),
        lambda each: each.branch == f"kode/{part}",
        lambda each: bool(part) and each.name == part,
    )
    matching = ([each for each in sessions if fits(each)] for fits in ways)
    matches = next(filter(None, matching), [])
    if len(matches) == 1:
        return matches[0]
    problem = "".join(f" {fault}" for fault in faults)
    if matches:
        names = ", ".join(session.id for session in matches)
        raise SessionError(f"{part} fits several sessions: {names}. Give more of the id.{problem}")
    raise SessionError(
        f"No session in the background has the id {part}. `kode ps` lists them; "
        f"`kode -r {part}` opens any other.{problem}"
    )


def find_only_running(home: Path) -> Background:
    """The session that runs, if it is the only one. Raises: SessionError; StorageError."""
    running = [each for each in list_background(home, []) if each.life == "alive"]
    if len(running) != 1:
        many = f"{len(running)} sessions run in the background" if running else "No session runs"
        raise SessionError(f"{many}. `kode ps` lists all: give the id of one.")
    return running[0]


def forget_background(folder: Path) -> None:
    """Removes the folder of a session that is not alive; its conversation stays."""
    remove_tree(Path(real_path(folder.parent)) / folder.name)


def is_alive(folder: Path) -> bool:
    """Whether a process of the session lives: its holder or its prompt."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _can_lock(lock, fcntl.LOCK_SH)  # shared: several may look at once
    finally:
        os.close(lock)


def _can_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def take_lock(folder: Path) -> int:
    """Locks a session that is not alive, to resume it, and returns the open lock file. Raises:
    SessionError if the session is alive by now; StorageError."""
    with storage_errors(folder / LOCK, "open"):
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    if not any(_can_lock(lock, fcntl.LOCK_EX) for _ in range(LOOKS)):
        os.close(lock)
        raise SessionError(f"{folder.name} was just resumed: `kode attach {folder.name}` joins it.")
    return lock


def wait_for_end(folder: Path, limit_s: float) -> bool:
    """Waits until no process of the session lives; False if one still does after `limit_s`."""
    ends_by = time.monotonic() + limit_s
    while is_alive(folder):
        if time.monotonic() > ends_by:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def connect_to_holder(folder: Path) -> Iterator[socket.socket]:
    """Connects to the holder of a session, and proves itself by the token. Raises: SessionError."""
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT_S)
        try:
            os.chdir(folder)  # the name of a socket has at most 108 bytes
            connection.connect(SOCKET)
            connection.sendall(holder.encode_frame(holder.HELLO, Path(LOCK).read_bytes()))
        except OSError as error:
            raise SessionError(
                f"The session {folder.name} does not answer ({error.strerror or error}). It may "
                "just have ended: `kode ps` says more."
            ) from None
        finally:
            os.fchdir(before)
            os.close(before)
        yield connection


def _read_session(folder: Path, faults: list[str]) -> Background | None:
    try:
        if folder.stat().st_uid != os.geteuid():
            faults.append(f"{folder} belongs to another user, so it is not one of these.")
            return None
        # Order matters: a session is locked before it has a spec, and ended before unlocked.
        data = (folder / SPEC).read_bytes()
        alive = is_alive(folder)
        spec = Spec.model_validate_json(data)
    except FileNotFoundError:
        return None
    except OSError as error:
        faults.append(f"{folder} cannot be read ({error.strerror}), so it is not listed.")
        return None
    except ValidationError:
        step = f"`fuser {folder / LOCK}` names its processes" if alive else f"remove {folder}"
        faults.append(f"{folder / SPEC} is damaged, so its session is not listed: {step}.")
        return None
    state = SessionState(since=spec.at)
    try:
        state = SessionState.model_validate_json((folder / STATE).read_bytes())
    except OSError as error:
        faults.append(f"{folder / STATE} cannot be read ({error.strerror}).")
    except ValidationError:
        if not alive:
            note = f"it is kept as {set_aside(folder / STATE).name}"
            faults.append(
                f"{folder / STATE} was damaged: {note}. `kode attach {spec.id}` continues it."
            )
    if not alive:  # of one that was killed
        remove_tree(Path(real_path(folder)) / SOCKET)
    life: Life = "alive" if alive else "ended" if state.doing == "ended" else "killed"
    return Background(folder=folder, spec=spec, state=state, life=life)
