"""A session as a replay needs it: its transcript in turns.

A cassette is a session as one file that another person can replay: a line about it, then the lines
of the session. A file from somebody else is data.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kode.plugin import (
    AnyEntry,
    ExportFile,
    MessageEntry,
    SessionError,
    Transcript,
    kode_home,
    kode_version,
    plural,
    project_root,
    storage_errors,
)

VERSION = 2  # counts the changes of the format of cassettes
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


@dataclass(frozen=True, kw_only=True)
class RecordedTurn:
    number: int
    before: Sequence[AnyEntry]
    """What happened since the previous turn: a compaction by hand, a rewind."""
    entries: Sequence[AnyEntry]
    """From the person's message to the turn's end."""
    end: Any
    """None if kode was killed in the middle."""

    @property
    def prompt(self) -> MessageEntry:
        assert isinstance(self.entries[0], MessageEntry)
        return self.entries[0]

    @property
    def begins_process(self) -> bool:
        """Whether a process began with this turn."""
        first = next(filter(is_request, self.entries), None)
        return first is not None and bool(vars(first)["begins_process"])


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A session to replay."""

    transcript: Transcript
    project: str
    """The root of its project, possibly on another machine."""
    home: str
    """The `$KODE_HOME` it was made with, likewise."""

    @property
    def header(self) -> Any:
        return self.transcript.header

    @cached_property
    def turns(self) -> Sequence[RecordedTurn]:
        """Its turns in order, including those rewound later."""
        turns: list[RecordedTurn] = []
        before: Sequence[AnyEntry] = ()
        for turn in self.transcript.turns:
            ends = (n for n, entry in enumerate(turn.entries, 1) if entry.type == "turn")
            size = next(ends, len(turn.entries)) if turn.number else 0
            if turn.number:
                entries, end = turn.entries[:size], turn.end
                turns.append(
                    RecordedTurn(number=turn.number, before=before, entries=entries, end=end)
                )
            before = turn.entries[size:]
        return turns

    @property
    def beginning(self) -> Any:
        """What its first request began with; None if it was not kept."""
        entries = (each for each in self.transcript.entries if each.type == "system")
        return next(entries, None)

    @property
    def steps(self) -> int:
        """The number of replies."""
        return sum(map(is_reply, self.transcript.entries))


def is_reply(entry: AnyEntry) -> bool:
    """Whether the entry is a reply of the model."""
    return isinstance(entry, MessageEntry) and entry.role == "assistant"


def is_request(entry: AnyEntry) -> bool:
    """Whether the entry records the request of a turn."""
    return entry.type == "request"


def recording_of(transcript: Transcript, *, project: str = "", home: str = "") -> Recording:
    """A session as a recording; by default one of this machine.

    Raises: SessionError if it has no reply, or another agent made it.
    """
    header = transcript.header
    project = project or str(project_root(Path(header.cwd)))
    recording = Recording(transcript=transcript, project=project, home=home or str(kode_home()))
    if header.imported_from is not None:
        raise SessionError(
            f"Session {header.id} was made by {header.imported_from.agent}, whose tools kode does "
            "not have, so it cannot be replayed. `kode session show` shows it."
        )
    if not recording.steps or not recording.turns:
        raise SessionError(
            f"Session {header.id} holds no reply of a model, so there is nothing to replay. "
            "`kode session list --all` shows the others."
        )
    return recording


def read_cassette(path: Path) -> Recording:
    """The recording in a cassette. Raises: SessionError for a file that is not one, or is of
    another version; StorageError."""
    with storage_errors(path, "read"):
        first, _, session = path.read_bytes().partition(b"\n")
    try:
        about = json.loads(first)
        version, project, home = about["version"], str(about["project"]), str(about["home"])
        session_id = str(json.loads(session.partition(b"\n")[0])["id"])
        if about["type"] != "cassette" or not _ID.fullmatch(session_id):
            raise ValueError("another kind of file")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SessionError(
            f"{path} is not a cassette: `kode session export ID --format cassette` prints one."
        ) from error
    if version != VERSION:
        raise SessionError(
            f"{path} is a cassette of version {version}, and this kode reads version {VERSION}. "
            "Record it again."
        )
    with tempfile.TemporaryDirectory(prefix="kode-cassette-") as folder:
        file = Path(folder, f"{session_id}.jsonl")
        file.write_bytes(session)
        return recording_of(Transcript.read(file), project=project, home=home)


def export_cassette(transcript: Transcript) -> ExportFile:
    """The format `cassette` of `kode session export`. Raises: SessionError for a session with
    nothing to play."""
    recording = recording_of(transcript)
    places = {"project": recording.project, "home": recording.home}
    about = {"type": "cassette", "version": VERSION, "kode": kode_version, **places}
    lines = [json.dumps(about).encode(), *transcript.lines()]
    return ExportFile(data=b"\n".join(lines) + b"\n", contains=tuple(_list_contents(recording)))


def _list_contents(recording: Recording) -> Iterator[str]:
    yield f"{plural(len(recording.turns), 'turn')}: what you and the model said, with all results"
    yield f"paths of this machine: {recording.project}, {recording.home}"
    if recording.beginning is not None and "memory" in recording.beginning.sections:
        yield "what kode remembered of you and the project, as the model was shown it"
    messages = (each for each in recording.transcript.entries if isinstance(each, MessageEntry))
    if any(part.type == "image" for message in messages for part in message.parts):
        yield "left out: images"
    yield "masked: anything that looks like a key"
