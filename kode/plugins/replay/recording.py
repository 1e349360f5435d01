"""A session's files as a replay needs them: its transcript in turns, file changes, and the contents
kept for undo."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from kode.plugin import FileChanges, Transcript, paths, session_path
from kode.plugin.entries import (
    AnyEntry,
    Header,
    MessageEntry,
    RequestEntry,
    SystemEntry,
    TurnEntry,
    UndoEntry,
)
from kode.plugin.errors import SessionError
from kode.plugin.messages import Text, ToolResult

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Limit of one kept content; undo keeps none nearly as large."""

FileState = tuple[str, str | None, int]
"""A recorded path, its state (see `content_store`; None: nothing is there), and its mode."""


@dataclass(frozen=True, kw_only=True)
class PastTurn:
    """One turn of a recording; `first`, `begins` and `ends` are indices of its entries."""

    number: int
    first: int
    """Of the first entry since the previous turn: a compaction by hand, a rewind."""
    begins: int
    """Of the person's message."""
    ends: int
    """After its last entry."""
    end: TurnEntry | None
    """None if kode was killed in the middle."""
    changes: slice
    """Of the groups of file changes: its own, if it has any."""
    taken: tuple[FileState, ...]
    """What the person's undos and redos before it made of files."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A session to replay."""

    transcript: Transcript
    changes: FileChanges
    project: str
    """The root of its project, possibly on another machine."""
    home: str
    """The `$KODE_HOME` it was made with, likewise."""

    @property
    def header(self) -> Header:
        return self.transcript.header

    @cached_property
    def entries(self) -> tuple[AnyEntry, ...]:
        """All entries, in the order of the turns."""
        return tuple(self.transcript.entries)

    @cached_property
    def turns(self) -> tuple[PastTurn, ...]:
        """Its turns in order, including those rewound later."""
        groups, taken = self.changes.groups, list(self.changes.taken)
        turns, position, first, group = list[PastTurn](), 0, 0, 0
        # Undos of a kode that kept no entries for them come first, as early as possible.
        due = len(taken) - sum(isinstance(entry, UndoEntry) for entry in self.entries)
        for turn in self.transcript.turns:
            ends = [n for n, e in enumerate(turn.entries, position + 1) if isinstance(e, TurnEntry)]
            if turn.number > 0:
                done = [one for before, one in taken if before <= group][: max(due, 0)]
                due -= len(done)
                del taken[: len(done)]
                own = group < len(groups) and groups[group].turn == turn.number
                turns.append(
                    PastTurn(
                        number=turn.number,
                        first=first,
                        begins=position,
                        ends=ends[0] if ends else position + len(turn.entries),
                        end=turn.end,
                        changes=slice(group, group + own),
                        taken=tuple(
                            (move.path, move.now, move.now_mode)
                            for one in done
                            for move in one.files
                        ),
                    )
                )
                group += own
                first = turns[-1].ends
            due += sum(isinstance(entry, UndoEntry) for entry in turn.entries)
            position += len(turn.entries)
        return tuple(turns)

    def before(self, groups: slice) -> list[FileState]:
        """The files that these groups changed, as they were before."""
        first: dict[str, FileState] = {}
        for group in self.changes.groups[groups]:
            for path, changes in group.files.items():
                for change in changes[:1]:
                    first.setdefault(path, (path, change.before, change.mode))
        return list(first.values())

    def after(self, groups: slice) -> list[FileState]:
        """The same as they were after it, as far as they were changed."""
        return [
            (path, changes[-1].after, changes[-1].mode)
            for group in self.changes.groups[groups]
            for path, changes in group.files.items()
            if changes and changes[-1].done
        ]

    def results(self) -> dict[str, ToolResult]:
        """Call id → its result."""
        calls = (call for item in self.transcript.items for call in item.calls)
        return {call.call.id: call.result for call in calls if call.result is not None}

    @property
    def has_refusals(self) -> bool:
        """Whether its kode stored who refused a call, and why one did not end: it also named the
        sections of the opening."""
        messages = (entry for entry in self.entries if isinstance(entry, MessageEntry))
        parts = (part for message in messages for part in message.parts)
        return any(isinstance(part, Text) and part.section_name for part in parts)

    def steps(self) -> int:
        """The number of replies."""
        return sum(map(is_reply, self.entries))

    def inside_project(self) -> Path:
        """The working directory, relative to the root of the project."""
        cwd = Path(self.header.cwd)
        inside = cwd.is_relative_to(self.project) and ".." not in cwd.parts
        return cwd.relative_to(self.project) if inside else Path()

    def first_reply_at(self) -> float:
        """When the model first answered, in seconds since the epoch: nothing was changed before."""
        return datetime.fromisoformat(next(filter(is_reply, self.entries)).at).timestamp()

    def beginning(self, turn: PastTurn | None = None) -> SystemEntry | None:
        """What the first request began with, or that of a turn; None if it was not kept."""
        begun = None
        for index, entry in enumerate(self.entries):
            if isinstance(entry, SystemEntry):
                begun = entry
            if is_request(entry) and (turn is None or index >= turn.begins):
                return begun
        return None

    def begins_process(self, turn: PastTurn) -> bool:
        """Whether a process began with this turn: then its first request is recorded whole."""
        requests = filter(is_request, self.entries[turn.begins : turn.ends])
        first = next(requests, None)
        return (
            isinstance(first, RequestEntry) and first.system is not None and first.tools is not None
        )


def is_reply(entry: AnyEntry) -> bool:
    """Whether the entry is a reply of the model."""
    return isinstance(entry, MessageEntry) and entry.role == "assistant"


def is_request(entry: AnyEntry) -> bool:
    """Whether the entry records the request of a turn."""
    return isinstance(entry, RequestEntry) and entry.purpose == "turn"


def load(home: Path, session_id: str) -> Recording:
    """Loads a session of this machine, read-only.

    Raises: SessionError if there is none, or nothing in it to play; StorageError.
    """
    transcript = Transcript.read(session_path(home, session_id))
    return of_transcript(
        transcript,
        paths.checkpoints_folder(paths.session_folder(home, session_id)),
        project=str(paths.project_root(Path(transcript.header.cwd))),
        home=str(home),
    )


def of_transcript(
    transcript: Transcript, checkpoints: Path, *, project: str, home: str
) -> Recording:
    """A recording of these parts; `checkpoints` is the folder with undo data.

    Raises: SessionError if it has no reply, or another agent made it.
    """
    header = transcript.header
    recording = Recording(
        transcript=transcript,
        changes=FileChanges.announced(checkpoints, MAX_FILE_BYTES),
        project=project,
        home=home,
    )
    if header.imported_from is not None:
        raise SessionError(
            f"Session {header.id} was made by {header.imported_from.agent}, whose tools kode does "
            "not have, so it cannot be replayed. `kode session show` shows it."
        )
    if recording.steps() == 0 or not recording.turns:
        raise SessionError(
            f"Session {header.id} holds no reply of a model, so there is nothing to replay. "
            "`kode session list --all` shows the others."
        )
    return recording
