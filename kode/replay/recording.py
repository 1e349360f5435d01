"""A session's files as a replay needs them: entries in turns, file changes, and the contents kept
for undo."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter

from kode import paths
from kode.contracts import ToolSpec
from kode.errors import SessionError
from kode.messages import ToolResult, results_of
from kode.replay import earlier
from kode.session import change_log, log
from kode.session.change_log import Group, Settled, Taken
from kode.session.checkpoints import LOG
from kode.session.content_store import MEGABYTE, Contents
from kode.session.entries import (
    AnyEntry,
    Header,
    MessageEntry,
    RequestEntry,
    SystemEntry,
    TurnEntry,
    UndoEntry,
    is_turn,
)
from kode.session.reading import read, session_path
from kode.session.requests import kept_tools

MAX_FILE_BYTES = 256 * MEGABYTE
"""Limit of one kept content; undo keeps none nearly as large."""


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
    group: Group | None
    """Its file changes; None for none."""
    taken: tuple[Taken, ...] = ()
    """What the person undid and redid before it."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A session to replay."""

    header: Header
    entries: tuple[AnyEntry, ...]
    groups: tuple[Group, ...]
    """File changes by turn, in order."""
    taken: tuple[tuple[int, Taken], ...]
    """Undos and redos, each with the number of groups before it."""
    contents: Contents
    project: str
    """The root of its project, possibly on another machine."""
    home: str
    """The `$KODE_HOME` it was made with, likewise."""
    tools_home: Path
    """Where its tools' texts are kept."""

    def turns(self) -> list[PastTurn]:
        """Its turns in order, including those rewound later."""
        session = log.in_memory(cwd=Path("/"), model="", provider="")
        groups, taken = list(self.groups), list(self.taken)
        turns, first = list[PastTurn](), 0
        # Undos of a kode that kept no entries for them come first, as early as possible.
        due = len(taken) - sum(isinstance(entry, UndoEntry) for entry in self.entries)
        for at, entry in enumerate(self.entries):
            if is_turn(entry):
                number = session.turns + 1
                done = [one for before, one in taken if before <= len(self.groups) - len(groups)]
                done = done[: max(due, 0)]
                due -= len(done)
                del taken[: len(done)]
                group = groups.pop(0) if groups and groups[0].turn == number else None
                ends = self._end_of_turn(at)
                end = self.entries[ends - 1]
                turns.append(
                    PastTurn(
                        number=number,
                        first=first,
                        begins=at,
                        ends=ends,
                        end=end if isinstance(end, TurnEntry) else None,
                        group=group,
                        taken=tuple(done),
                    )
                )
                first = ends
            due += isinstance(entry, UndoEntry)
            session.append(entry)
        return turns

    def _end_of_turn(self, begins: int) -> int:
        for at in range(begins + 1, len(self.entries)):
            if isinstance(self.entries[at], TurnEntry):
                return at + 1
            if is_turn(self.entries[at]):
                return at
        return len(self.entries)

    def results(self) -> dict[str, ToolResult]:
        """Call id → its result."""
        stores_values = earlier.stores_values(self.entries)
        return {
            result.call_id: result if stores_values else earlier.with_values(result)
            for entry in self.entries
            if isinstance(entry, MessageEntry)
            for result in results_of(entry)
        }

    def steps(self) -> int:
        """The number of replies."""
        return sum(
            isinstance(entry, MessageEntry) and entry.role == "assistant" for entry in self.entries
        )

    def inside_project(self) -> Path:
        """The working directory, relative to the root of the project."""
        cwd = Path(self.header.cwd)
        inside = cwd.is_relative_to(self.project) and ".." not in cwd.parts
        return cwd.relative_to(self.project) if inside else Path()

    def first_reply_at(self) -> float:
        """When the model first answered, in seconds since the epoch: nothing was changed before."""
        replies = (
            e.at for e in self.entries if isinstance(e, MessageEntry) and e.role == "assistant"
        )
        return datetime.fromisoformat(next(replies)).timestamp()

    def first_request(self) -> tuple[str, RequestEntry | None]:
        """The system prompt of a turn's first request, and its record; None for a session without
        records."""
        text = ""
        for entry in self.entries:
            if isinstance(entry, SystemEntry):
                text = entry.text
            if isinstance(entry, RequestEntry) and entry.purpose == "turn":
                return text, entry
        return text, None

    def begins_process(self, turn: PastTurn) -> RequestEntry | None:
        """The first request of a turn that began a process; None for any other turn."""
        for entry in self.entries[turn.begins : turn.ends]:
            if isinstance(entry, RequestEntry) and entry.purpose == "turn":
                whole = entry.system is not None and entry.tools is not None
                return entry if whole else None
        return None

    def tools_of(self, request: RequestEntry) -> tuple[ToolSpec, ...] | None:
        """The tools of a request, in order; None if their texts are no longer kept."""
        texts = kept_tools(self.tools_home, request.tools_kept) if request.tools_kept else {}
        try:
            kept = (texts[part.name] for part in request.tools or ())
            return tuple(map(TypeAdapter(ToolSpec).validate_json, kept))
        except (KeyError, ValueError):
            return None


def load(home: Path, session_id: str) -> Recording:
    """Loads a session of this machine, read-only.

    Raises: SessionError if there is none, or nothing in it to play; StorageError.
    """
    path = session_path(home, session_id)
    header, entries, _ = read(path)
    folder = paths.checkpoints_folder(paths.session_folder(home, session_id))
    return make(
        header,
        entries,
        folder,
        project=str(paths.project_root(Path(header.cwd))),
        home=str(home),
        tools_home=home,
    )


def make(
    header: Header,
    entries: Sequence[AnyEntry],
    checkpoints: Path,
    *,
    project: str,
    home: str,
    tools_home: Path,
) -> Recording:
    """A recording of these parts; `checkpoints` is the folder with undo data.

    Raises: SessionError if it has no reply, or another agent made it.
    """
    try:
        lines = (checkpoints / LOG).read_bytes().splitlines()
    except OSError:
        lines = []
    # Includes announced changes that did not happen: they say what was there before.
    announced = [one for one in map(change_log.parse, lines) if not isinstance(one, Settled)]
    made = Recording(
        header=header,
        entries=tuple(entries),
        groups=change_log.history(announced).groups,
        taken=tuple(
            (len(change_log.history(announced[:at]).groups), one)
            for at, one in enumerate(announced)
            if isinstance(one, Taken) and one.files
        ),
        contents=Contents(folder=checkpoints, max_file_bytes=MAX_FILE_BYTES, max_bytes=2**62),
        project=project,
        home=home,
        tools_home=tools_home,
    )
    if header.imported_from is not None:
        raise SessionError(
            f"Session {header.id} was made by {header.imported_from.agent}, whose tools kode does "
            "not have, so it cannot be replayed. `kode session show` shows it."
        )
    if made.steps() == 0 or not made.turns():
        raise SessionError(
            f"Session {header.id} holds no reply of a model, so there is nothing to replay. "
            "`kode session list --all` shows the others."
        )
    return made
