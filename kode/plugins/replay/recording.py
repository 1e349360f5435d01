"""A session as a replay needs it: its transcript in turns."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kode.plugin import (
    AnyEntry,
    Header,
    MessageEntry,
    RequestEntry,
    SessionError,
    SystemEntry,
    ToolResult,
    Transcript,
    TurnEntry,
    paths,
    session_path,
)


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


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A session to replay."""

    transcript: Transcript
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
        turns, position, first = list[PastTurn](), 0, 0
        for turn in self.transcript.turns:
            ends = [n for n, e in enumerate(turn.entries, position + 1) if isinstance(e, TurnEntry)]
            if turn.number > 0:
                end = ends[0] if ends else position + len(turn.entries)
                past = PastTurn(
                    number=turn.number, first=first, begins=position, ends=end, end=turn.end
                )
                turns.append(past)
                first = end
            position += len(turn.entries)
        return tuple(turns)

    def results(self) -> dict[str, ToolResult]:
        """Call id → its result."""
        calls = (call for item in self.transcript.items for call in item.calls)
        return {call.call.id: call.result for call in calls if call.result is not None}

    def steps(self) -> int:
        """The number of replies."""
        return sum(map(is_reply, self.entries))

    def inside_project(self) -> Path:
        """The working directory, relative to the root of the project."""
        cwd = Path(self.header.cwd)
        inside = cwd.is_relative_to(self.project) and ".." not in cwd.parts
        return cwd.relative_to(self.project) if inside else Path()

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
    project = str(paths.project_root(Path(transcript.header.cwd)))
    return of_transcript(transcript, project=project, home=str(home))


def of_transcript(transcript: Transcript, *, project: str, home: str) -> Recording:
    """A recording of these parts. Raises: SessionError if it has no reply, or another agent made
    it."""
    header = transcript.header
    recording = Recording(transcript=transcript, project=project, home=home)
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
