"""Creates, appends to, loads and repairs a session's file. See `entries.py` for its content.

An open session holds the exclusive lock of its file until it is closed, so that two processes never
interleave their turns. Appending is durable before it returns.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any

from kode import durable, paths
from kode.errors import BusyError, StorageError
from kode.images import copy_to as copy_image
from kode.messages import Message, Part, Text, Thinking, Usage, images_of
from kode.session import order
from kode.session.entries import (
    OF_OPENING,
    AnyEntry,
    CompactionEntry,
    ContextEntry,
    Header,
    JobEntry,
    MessageEntry,
    NoteEntry,
    Origin,
    RequestEntry,
    RestoreEntry,
    RewindEntry,
    SectionUpdateEntry,
    StateEntry,
    SystemEntry,
    TaintEntry,
    TrimEntry,
    UnboundEntry,
    UndoEntry,
    UsageEntry,
    is_turn,
    line_of,
    new_session_id,
    settle,
    timestamp,
)
from kode.session.messages import (
    add_message,
    effective,
    find_unreported,
    messages_so_far,
    turns_of,
    unanswered,
    unknown_results,
)
from kode.session.plan import read_plan, write_plan
from kode.session.reading import ID, missing_session, read, session_path, unusable_id
from kode.session.requests import Chain


@dataclass
class Session:
    """An open session. Created by `create`, `in_memory` or `load`; ended by `close`."""

    header: Header
    path: Path | None
    """None for a session without a file."""
    entries: list[AnyEntry] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    """The messages the model gets. Read only."""
    answers: list[Message] = field(default_factory=list)
    """Results for the last message's calls, while others are pending."""
    beginning: SystemEntry | None = None
    """What every request begins with."""
    section_texts: dict[str, str] = field(default_factory=dict)
    """The sections of it of which the model was told a newer text, by name."""
    chain: Chain = field(default_factory=Chain)
    """The digests of the messages."""
    turns: int = 0
    turn_id: str = ""
    """Id of the message that began the newest turn."""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Total of all requests with a known price."""
    unpriced: bool = False
    """Whether some requests had an unknown price."""
    has_requested: bool = False
    """Whether this process has recorded a request of a turn."""
    tainted_by: str = ""
    """The first outside source that was read; "" if none."""
    states: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    file: IO[bytes] | None = None
    loaded: bool = False
    """False for a session created by this process."""
    pending: MessageEntry | None = None
    """The person's message whose turn has not begun."""
    _unreported: tuple[AnyEntry, ...] | None = ()
    """None: to be found in the entries."""

    @property
    def id(self) -> str | None:
        return self.header.id if self.path is not None else None

    def append(self, *entries: AnyEntry) -> None:
        """Adds entries; they are on disk when this returns. Raises: StorageError; then nothing was
        added."""
        if self.path is not None:
            lines = b"\n".join(map(line_of, entries))
            with durable.storage_errors(self.path, "append to"):
                if self.file is None:
                    raise OSError(errno.EBADF, "the session is closed")
                durable.append_to(self.file, lines, self.path)
        for entry in entries:
            self._take(entry)
        is_asked = any(is_turn(entry) or getattr(entry, "is_pending", False) for entry in entries)
        if self.path is not None and is_asked:
            order.add(self.path.parent, self.header.id)

    def record_prompt(self, text: str, typed: str | None = None) -> None:
        """Puts a person's message on disk before anything is done for it; `begin_prompt` or
        `drop_prompt` follows. `typed` is what they typed of it; None: all. Raises: StorageError."""
        entry = _prompt_entry(text, typed)
        if self.pending is None or self.pending.parts != entry.parts:
            self.append(entry)

    def begin_prompt(
        self, text: str, typed: str | None, context: Sequence[Part], notes_of: Sequence[AnyEntry]
    ) -> None:
        """Adds a person's message to those of the model, behind the parts that go with it, which
        tell of the entries `notes_of`. Raises: StorageError."""
        self.record_prompt(text, typed)
        assert self.pending is not None
        ids = tuple(entry.id for entry in notes_of)
        self.append(ContextEntry(of=self.pending.id, parts=tuple(context), notes_of=ids))

    def drop_prompt(self) -> None:
        """Leaves out the recorded message, if its turn has not begun. Raises: StorageError."""
        if self.pending is not None:
            self.append(ContextEntry(of=self.pending.id, refused=True))

    def append_message(self, message: Message, cost_usd: float | None = None) -> MessageEntry:
        """Adds one message, with what its request cost; see `append`."""
        values = {each.name: getattr(message, each.name) for each in fields(Message)}
        values["bound"] = self.bound() if Thinking in map(type, message.parts) else ""
        self.append(MessageEntry(**values, cost_usd=cost_usd))
        added = self.entries[-1]
        assert isinstance(added, MessageEntry)
        return added

    @property
    def system(self) -> str:
        """The system prompt; "" before it was rendered."""
        return self.beginning.text if self.beginning else ""

    def bound(self, count: int | None = None) -> str:
        """The digest of the beginning and the first `count` messages, by default all: what a reply
        answers, and its thinking is bound to."""
        count = len(self.messages) if count is None else count
        return self.chain.bound(self.beginning, self.messages, count)

    @property
    def unreported(self) -> tuple[AnyEntry, ...]:
        """The entries that the next message tells the model of; see `note_of`."""
        if self._unreported is None:
            self._unreported = tuple(find_unreported(self.entries))
        return self._unreported

    @property
    def tainted(self) -> bool:
        """Whether outside text was read."""
        return bool(self.tainted_by)

    def state(self, system: str) -> Mapping[str, Any]:
        """The last stored state of a memory system; empty if none."""
        return self.states.get(system, {})

    @property
    def is_used(self) -> bool:
        """Whether a person or a plug-in caused anything in it."""
        return self.loaded or not all(isinstance(entry, OF_OPENING) for entry in self.entries)

    def close(self) -> None:
        """Releases the file. Deletes one that this process created and nobody used."""
        if self.file is None:
            return
        file, self.file = self.file, None
        with file:
            if not self.is_used and self.path is not None:
                with contextlib.suppress(StorageError):  # an empty file is no loss
                    durable.remove(self.path)
                    durable.forget_length(self.path)
                # Pictures attached to a first message that was never sent.
                shutil.rmtree(self.path.with_suffix(""), ignore_errors=True)
            durable.unlock(file)

    def _take(self, entry: AnyEntry) -> None:
        """Updates the derived state, in time independent of the session's length, except for the
        rare entries that change the past."""
        self.pending, settled = settle(self.pending, entry)
        for entry in settled:
            self.entries.append(entry)
            if isinstance(entry, MessageEntry | UsageEntry) and entry.usage is not None:
                self.cost_usd += entry.cost_usd or 0.0
                self.usage += entry.usage
                self.unpriced |= entry.cost_usd is None
            self._apply(entry)

    def _apply(self, entry: AnyEntry) -> None:
        match entry:
            case MessageEntry():
                if entry.notes_of:
                    self._unreported = None
                if entry.bound and entry.bound != self.bound():
                    entry = replace(entry, moved=True)
                add_message(self.messages, self.answers, entry)
                if is_turn(entry):
                    self.turns, self.turn_id = self.turns + 1, entry.id
            case SystemEntry():
                self._take_beginning(entry)
                self._mark_moved()
            case SectionUpdateEntry():
                self._take_beginning(entry)
            case StateEntry():
                self.states[entry.system] = entry.state
            case TaintEntry():
                self.tainted_by = self.tainted_by or entry.source or "a source without a name"
            case RequestEntry():
                self.has_requested = True
            case UndoEntry() | JobEntry() | NoteEntry():
                self._unreported = None
            case RewindEntry() | RestoreEntry():
                self._unreported = None
                counting = effective(self.entries)
                self.turns = turns_of(counting)
                self.beginning, self.section_texts = None, {}
                for earlier in counting:
                    self._take_beginning(earlier)
                self._rebuild()
            case CompactionEntry() | TrimEntry() | UnboundEntry():
                self._rebuild()

    def _take_beginning(self, entry: AnyEntry) -> None:
        if isinstance(entry, SystemEntry):
            self.beginning, self.section_texts = entry, {}
        elif isinstance(entry, SectionUpdateEntry):
            self.section_texts[entry.section] = entry.text

    def _rebuild(self) -> None:
        self.messages, self.answers = messages_so_far(self.entries)
        self._mark_moved()

    def _mark_moved(self) -> None:
        """Marks the messages whose thinking is bound to another beginning than they have now."""
        moved = {
            index: replace(message, moved=True)
            for index, message in enumerate(self.messages)
            if message.bound and message.bound != self.bound(index)
        }
        if moved:
            self.messages = [moved.get(at, message) for at, message in enumerate(self.messages)]


def _prompt_entry(text: str, typed: str | None = None) -> MessageEntry:
    words = Text(text=text, typed=None if typed == text else typed)
    return MessageEntry(role="user", parts=(words,), is_pending=True)


def create(
    home: Path,
    *,
    cwd: Path,
    model: str,
    provider: str,
    id: str | None = None,
    parent: str | None = None,
    task: str = "",
) -> Session:
    """Creates a session with its file and header, under `id` if given, and its first prompt in the
    same write.

    Raises: SessionError for an id that is taken or invalid; StorageError.
    """
    durable.make_folder(paths.sessions_folder(home))
    while True:
        session_id = id or new_session_id()
        path = paths.session_file(home, session_id)
        with durable.storage_errors(path, "create"):
            if ID.fullmatch(session_id) and not path.exists():
                break
        if id is not None:
            raise unusable_id(id)
    header = _header(session_id, cwd, model, provider, parent)
    prompts = [_prompt_entry(task)] if task else []
    write_session(home, header, prompts)
    file = _open_locked(path, session_id)
    order.add(path.parent, session_id)
    return Session(header=header, path=path, file=file, pending=next(iter(prompts), None))


def in_memory(*, cwd: Path, model: str, provider: str) -> Session:
    """A session without a file (`--no-session`)."""
    return Session(header=_header(new_session_id(), cwd, model, provider), path=None)


def _header(id: str, cwd: Path, model: str, provider: str, parent: str | None = None) -> Header:
    return Header(
        id=id,
        created_at=timestamp(),
        cwd=writable_path(cwd),
        model=model,
        provider=provider,
        parent=parent,
    )


def writable_path(path: Path) -> str:
    """A path in a form that JSON can hold: invalid UTF-8 is escaped with a backslash."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def write_session(home: Path, header: Header, entries: Iterable[AnyEntry]) -> Path:
    """Writes the file of a session that nobody has open, atomically; returns its path. Raises:
    StorageError."""
    path = paths.session_file(home, header.id)
    durable.make_folder(path.parent)
    data = b"\n".join((line_of(header), *map(line_of, entries), b""))
    durable.replace(path, data)
    durable.note_length(path, len(data))
    return path


def copy_to(home: Path, source: Header, entries: Sequence[AnyEntry], origin: Origin) -> str:
    """Creates a session that begins with these entries, atomically; returns its id. Raises:
    StorageError."""
    header = replace(source, id=new_session_id(), created_at=timestamp(), forked_from=origin)
    folder = paths.images_folder(paths.session_folder(home, header.id))
    for image in (p for e in entries if isinstance(e, MessageEntry) for p in images_of(e)):
        copy_image(image, folder)
    if plan := read_plan(paths.plan_file(home, source.id)):
        write_plan(paths.plan_file(home, header.id), plan)
    order.add(write_session(home, header, entries).parent, header.id)
    return header.id


def load(home: Path, session_id: str) -> tuple[Session, list[str]]:
    """Opens a session to continue it; returns it with a plain sentence for each repair.

    A torn last line is set aside and cut off; unreadable lines stay in place and are skipped; calls
    without a result get one that says it is unknown.

    Raises: SessionError if there is none or a newer kode wrote it; BusyError if it is open
        elsewhere; StorageError.
    """
    return load_file(session_path(home, session_id), session_id)


def load_file(path: Path, session_id: str) -> tuple[Session, list[str]]:
    """As `load`, for a session whose file is elsewhere."""
    file = _open_locked(path, session_id)
    try:
        repairs: list[str] = []
        with durable.storage_errors(path, "repair"):
            size = os.fstat(file.fileno()).st_size
            whole = durable.cut_torn_line(file, path)
        if whole < size:
            repairs.append(
                f"The last line of session {session_id} is incomplete and was left out "
                f"({size - whole} bytes, kept in {path.name}.torn)."
            )
        header, entries, faults = read(path)
        repairs += faults
        durable.note_length(path, whole)  # what is lost before it has been said
        header = replace(header, id=session_id)  # the name of its file, except of a subagent's
        session = Session(header=header, path=path, file=file, loaded=True)
        if whole == 0:
            with durable.storage_errors(path, "repair"):
                durable.append_to(file, line_of(header), path)
        for entry in entries:
            session._take(entry)
        session.has_requested = False
        if lost := unanswered(session.messages, session.answers):
            session.append_message(unknown_results(lost))
            names = ", ".join(call.name for call in lost)
            repairs.append(
                f"kode was stopped during a call ({names}), so its result is unknown. The model "
                "knows that."
            )
    except BaseException:
        file.close()
        raise
    return session, repairs


def _open_locked(path: Path, session_id: str) -> IO[bytes]:
    """Opens and locks an existing file, without recreating one that was deleted meanwhile."""
    with durable.storage_errors(path, "open"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            raise missing_session(session_id) from None
    file = os.fdopen(descriptor, "r+b", buffering=0)
    try:
        _lock(file, session_id)
        if os.fstat(descriptor).st_nlink == 0:
            raise missing_session(session_id)
    except BaseException:
        file.close()
        raise
    return file


def _lock(file: IO[bytes], session_id: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(
            f"Session {session_id} is open in another kode. Close it there, or continue in a "
            f"copy: `kode session fork {session_id}`."
        ) from None


def was_trimmed(session: Session) -> bool:
    """Whether messages were trimmed since the last request of a turn."""
    ends = (e for e in reversed(session.entries) if isinstance(e, TrimEntry | RequestEntry))
    return isinstance(next(ends, None), TrimEntry)
