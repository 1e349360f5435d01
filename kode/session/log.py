"""Creates, appends to, loads and repairs a session's file. An open session holds the lock of its
file, so that two processes never interleave their turns. Appending is durable before it returns."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import IO, Any

from kode import durable, paths
from kode.errors import BusyError, SessionError, StorageError
from kode.images import copy_image
from kode.messages import Message, Part, Text, Thinking, Usage, images_of
from kode.session.entries import (
    SETUP,
    CompactionEntry,
    Entry,
    Header,
    MessageEntry,
    NameEntry,
    Origin,
    PlanEntry,
    RequestEntry,
    RestoreEntry,
    RewindEntry,
    SectionUpdateEntry,
    StateEntry,
    SystemEntry,
    TaintEntry,
    TrimEntry,
    UnboundEntry,
    UsageEntry,
    encode_line,
    is_turn,
    new_session_id,
    settle_entry,
    timestamp,
)
from kode.session.index import ID, missing_session, name_from, note_use, read, session_path
from kode.session.messages import (
    CHANGES_NOTES,
    Chain,
    add_message,
    effective,
    find_unreported,
    open_calls,
    revise,
    unknown_results,
)
from kode.session.plan import Plan
from kode.session.spending import Spent
from kode.values import dataclass, field, replace


@dataclass
class Session:
    """An open session. Created by `create` or `load`; ended by `close`."""

    header: Header
    path: Path | None
    """None for a session without a file."""
    entries: list[Entry] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    """The messages the model gets. Read only."""
    answers: list[Message] = field(default_factory=list)
    """Tool messages that answer calls of the last reply."""
    beginning: SystemEntry | None = None
    """What every request begins with."""
    section_texts: dict[str, str] = field(default_factory=dict)
    """Section name → the newer text that the model was told after the system prompt."""
    chain: Chain = field(default_factory=Chain)
    """The digests of the messages."""
    turns: int = 0
    turn: MessageEntry | None = None
    """The message that began the newest turn that was not rewound."""
    plan: str = ""
    """The plan as the model knows it."""
    turn_id: str = ""
    """Id of the message that began the newest turn."""
    spent: Spent = field(default_factory=Spent)
    """What all its requests have used and cost."""
    has_requested: bool = False
    """Whether this process has recorded a request of a turn."""
    name: str = ""
    """What the person calls it."""
    tainted_by: str = ""
    """The first outside source that was read; "" if none."""
    states: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The last stored state of each memory system."""
    file: IO[bytes] | None = None
    waiting: list[bytes] = field(default_factory=list)
    """Lines that are written together with the next ones."""
    loaded: bool = False
    """False for a session created by this process."""
    pending: MessageEntry | None = None
    """The person's message whose turn has not begun."""

    @cached_property
    def id(self) -> str | None:
        """Its id; None for a session without a file."""
        return self.header.id if self.path is not None else None

    @cached_property
    def unreported(self) -> list[Entry]:
        """See `find_unreported`; looked for again only after an entry that changes it."""
        return find_unreported(self.entries)

    @property
    def system(self) -> str:
        """The system prompt; "" before it is rendered."""
        return self.beginning.text if self.beginning else ""

    @property
    def is_used(self) -> bool:
        """Whether it was loaded, or has entries other than those that kode adds by itself."""
        return self.loaded or not all(isinstance(entry, SETUP) for entry in self.entries)

    def append(self, *entries: Entry) -> None:
        """Adds entries durably; only a `RequestEntry` waits for the entry that follows it. Raises:
        StorageError; then nothing was added."""
        if self.path is not None and entries:
            if self.file is None:
                raise StorageError(f"Could not append to {self.path}. The session is closed.")
            lines = [*self.waiting, *map(encode_line, entries)]
            if isinstance(entries[-1], RequestEntry):
                self.waiting = lines
            else:
                durable.append_line(self.file, b"\n".join(lines), self.path)
                self.waiting = []
        for entry in entries:
            self._apply_entry(entry)

    def append_message(self, message: Message, cost_usd: float | None = None) -> None:
        """Adds one message, with the cost of the request that it answers. See `append`."""
        bound = self.digest_at() if Thinking in map(type, message.parts) else ""
        self.append(MessageEntry(**{**vars(message), "bound": bound}, cost_usd=cost_usd))

    def give_name(self, text: str) -> None:
        """Names the session; see `name_from`. Raises: UserError, StorageError."""
        self.append(NameEntry(text=name_from(text)))

    def record_prompt(self, text: str, typed: str | None = None) -> None:
        """Writes a message to disk as pending. `typed`: see `Text`. Raises: StorageError."""
        parts = _prompt_parts(text, typed)
        if self.pending is None or self.pending.parts != parts:
            self.append(MessageEntry(role="user", parts=parts, is_pending=True))
        if self.path is not None:
            note_use(self.path)

    def begin_prompt(
        self, text: str, typed: str | None, context: Sequence[Part], notes_of: Sequence[Entry]
    ) -> None:
        """Begins a turn: adds the person's message, after its context, to what the model gets. The
        context tells the model about the entries `notes_of`. Raises: StorageError."""
        if self.pending is None or self.pending.parts != _prompt_parts(text, typed):
            self.record_prompt(text, typed)
        assert self.pending is not None
        ids, parts = tuple(map(attrgetter("id"), notes_of)), tuple(context)
        self.append(
            MessageEntry(type="context", role="user", of=self.pending.id, parts=parts, notes_of=ids)
        )

    def drop_prompt(self) -> None:
        """Withdraws the pending message, if there is one. Raises: StorageError."""
        if self.pending is not None:
            self.append(MessageEntry(type="context", role="user", parts=()))

    def digest_at(self, count: int | None = None) -> str:
        """The digest of all before the message at index `count` (None: the next), see `Chain`."""
        count = len(self.messages) if count is None else count
        return self.chain.digest_at(self.beginning, self.messages, count)

    def close(self) -> None:
        """Releases the file, and deletes it if this process created it and nobody used it."""
        if self.file is None or self.path is None:
            return
        file, self.file = self.file, None
        with file:
            if not self.is_used:
                with contextlib.suppress(StorageError):  # an empty file is no loss
                    durable.remove(self.path)
                    durable.remove_length(self.path)
                # Pictures attached to a first message that was never sent.
                shutil.rmtree(self.path.with_suffix(""), ignore_errors=True)
            durable.unlock(file)

    def _apply_entry(self, entry: Entry) -> None:
        """Updates the session in constant time, unless an entry changes the past, which is rare."""
        counting: Sequence[Entry] = (entry,)
        if isinstance(entry, MessageEntry):
            self.pending, counting = settle_entry(self.pending, entry)
        for entry in counting:
            self.entries.append(entry)
            has_notes = isinstance(entry, MessageEntry) and bool(entry.notes_of)
            if has_notes or isinstance(entry, CHANGES_NOTES):
                vars(self).pop("unreported", None)
            match entry:
                case MessageEntry(usage=Usage()) | UsageEntry():
                    self.spent = self.spent.with_request(entry)
                case StateEntry():
                    self.states[entry.system] = entry.state
                case NameEntry():
                    self.name = entry.text
                case TaintEntry():
                    self.tainted_by = self.tainted_by or entry.source or "a source without a name"
                case RequestEntry():
                    self.has_requested = True
            if isinstance(entry, RewindEntry | RestoreEntry):
                self.messages, self.answers, self.turns, self.turn = [], [], 0, None
                self.beginning, self.section_texts, self.plan = None, {}, ""
                for earlier in effective(self.entries):
                    self._apply(earlier)
            elif not isinstance(entry, RequestEntry | StateEntry):
                self._apply(entry)
                self.turn_id = entry.id if entry is self.turn else self.turn_id

    def _apply(self, entry: Entry) -> None:
        """Updates the part of the session that a rewind recomputes."""
        match entry:
            case MessageEntry():
                if entry.role == "user" and is_turn(entry):
                    self.turn, self.turns = entry, self.turns + 1
                if entry.bound and entry.bound != self.digest_at():
                    entry = replace(entry, moved=True)
                add_message(self.messages, self.answers, entry)
            case PlanEntry():
                self.plan = entry.text
            case SectionUpdateEntry():
                self.section_texts[entry.section] = entry.text
            case SystemEntry() | CompactionEntry() | TrimEntry() | UnboundEntry():
                if isinstance(entry, SystemEntry):
                    self.beginning, self.section_texts = entry, {}
                self.messages = revise(self.messages, entry)
                self.messages = [
                    replace(m, moved=True) if m.bound and m.bound != self.digest_at(index) else m
                    for index, m in enumerate(self.messages)
                ]


def _prompt_parts(text: str, typed: str | None = None) -> tuple[Text]:
    return (Text(text=text, typed=None if typed == text else typed),)


def create(home: Path | None, header: Header, task: str = "") -> Session:
    """Creates a session; given a home, also its file, with `task` as the pending first prompt.
    Raises: SessionError for an id that is taken or invalid; StorageError."""
    if home is None:
        return Session(header=header, path=None)
    if not ID.fullmatch(header.id):
        form = "YYYYMMDD-HHMMSS-xxxxxx: a time in UTC and six hex digits"
        raise SessionError(f"{header.id[:80]!r} is no session id. Give none, or one like {form}.")
    path = paths.session_file(home, header.id)
    with durable.storage_errors(path, "create"):
        if path.exists():
            resume = f"`kode -r {header.id}` resumes it"
            raise SessionError(f"There is a session {header.id} already: {resume}.")
    prompt = MessageEntry(role="user", parts=_prompt_parts(task), is_pending=True) if task else None
    write_session(home, header, filter(None, [prompt]))
    file = _open_locked(path, header.id, is_new=True)
    note_use(path)
    return Session(header=header, path=path, file=file, pending=prompt)


def write_session(home: Path, header: Header, entries: Iterable[Entry]) -> Path:
    """Writes a session that nobody has open, atomically; returns the path. Raises: StorageError."""
    path = paths.session_file(home, header.id)
    durable.make_folder(path.parent)
    data = b"\n".join((encode_line(header), *map(encode_line, entries), b""))
    durable.replace_file(path, data)
    durable.write_length(path, len(data))
    return path


def copy_session(home: Path, source: Header, entries: Sequence[Entry], origin: Origin) -> str:
    """Creates a session that begins with these entries; returns its id. Raises: StorageError."""
    header = replace(source, id=new_session_id(), created_at=timestamp(), forked_from=origin)
    folder = paths.images_folder(paths.session_folder(home, header.id))
    for image in (p for e in entries if isinstance(e, MessageEntry) for p in images_of(e)):
        copy_image(image, folder)
    if plan := Plan(paths.plan_file(home, source.id)).text:
        Plan(paths.plan_file(home, header.id)).write(plan)
    # The copy gets no name, so that the name still finds only the original.
    unnamed = [NameEntry(text="")] if NameEntry in map(type, entries) else []
    note_use(write_session(home, header, [*entries, *unnamed]))
    return header.id


def load(home: Path, session_id: str, path: Path | None = None) -> tuple[Session, list[str]]:
    """Opens the session at `path`, or else the one in `home`, to continue it; returns it with a
    sentence for each fault: a torn last line is set aside and cut off, unreadable lines stay and
    are skipped, calls without a result get one. Raises: SessionError if there is none or a newer
    kode wrote it; BusyError if it is open elsewhere; StorageError."""
    path = session_path(home, session_id) if path is None else path
    file = _open_locked(path, session_id)
    try:
        header, entries, faults = read(path)
        header = replace(header, id=session_id)  # its file is named after it, except a subagent's
        with durable.storage_errors(path, "repair"):
            size = os.fstat(file.fileno()).st_size
            whole = durable.cut_torn_line(file, path)
            durable.write_length(path, whole)  # `read` has reported any loss before this
            if whole == 0:
                durable.append_line(file, encode_line(header), path)
        if whole < size:
            cut = f"{size - whole} bytes, which are now in {path.name}.torn"
            faults.insert(0, f"The last line of session {session_id} is incomplete: {cut}.")
        session = Session(header=header, path=path, file=file, loaded=True)
        for entry in entries:
            session._apply_entry(entry)
        session.has_requested = False
        if lost := open_calls(session.messages, session.answers):
            session.append_message(unknown_results(lost))
            names = ", ".join(call.name for call in lost)
            unknown = "so its result is unknown. The model knows that."
            faults.append(f"kode was stopped during a call ({names}), {unknown}")
    except BaseException:
        file.close()
        raise
    return session, faults


def _open_locked(path: Path, session_id: str, *, is_new: bool = False) -> IO[bytes]:
    """Opens and locks an existing file, without recreating one that was deleted meanwhile. For
    a new file it waits for the lock, which a process that checks `is_open` holds for a moment."""
    with contextlib.ExitStack() as opened, durable.storage_errors(path, "open"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            file = opened.enter_context(os.fdopen(descriptor, "r+b", buffering=0))
            fcntl.flock(file, fcntl.LOCK_EX | (0 if is_new else fcntl.LOCK_NB))
        except BlockingIOError:
            raise BusyError(
                f"Session {session_id} is open in another kode. Close it there, or continue in a "
                f"copy: `kode session fork {session_id}`."
            ) from None
        except FileNotFoundError:
            raise missing_session(session_id) from None
        if os.fstat(descriptor).st_nlink == 0:
            raise missing_session(session_id)
        opened.pop_all()
        return file


def was_trimmed(session: Session) -> bool:
    """Whether messages were trimmed since the last request of a turn."""
    ends = (e for e in reversed(session.entries) if isinstance(e, TrimEntry | RequestEntry))
    return isinstance(next(ends, None), TrimEntry)
