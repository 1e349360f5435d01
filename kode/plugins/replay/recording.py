"""A session as a replay needs it: its transcript in turns; and how requests differ from it.

A cassette is a session as one file that another person can replay: a line about it, then the lines
of the session. A file from somebody else is data.
"""

import difflib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from kode.plugin import (
    AnyEntry,
    ExportFile,
    Image,
    Message,
    MessageEntry,
    SessionError,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Transcript,
    kode_home,
    kode_version,
    project_root,
    redact_secrets,
    storage_errors,
)

VERSION = 2  # counts the changes of the format of cassettes
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
CONTAINS = (
    "what you and the model said, with all results, and paths of this machine",
    "what kode remembered of you and the project, as the model was shown it",
    "no images, and a mask in place of anything that looks like a key",
)
"""What a cassette contains, shown to the person before they send it to somebody."""


@dataclass(frozen=True, kw_only=True)
class RecordedTurn:
    number: int
    before: Sequence[AnyEntry]
    """What happened since the previous turn: a compaction by hand, a rewind."""
    entries: Sequence[AnyEntry]
    """From the person's message to the turn's end."""
    end: Any
    """The entry that ended the turn; None if kode was killed during it."""

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
    """The `$KODE_HOME` that it was made with, possibly on another machine."""

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
        """Its first `system` entry: the first request's sections and tools; None if not kept."""
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


def make_recording(transcript: Transcript, *, project: str = "", home: str = "") -> Recording:
    """A transcript as a recording; without `project` and `home`, as one of this machine.

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
        return make_recording(Transcript.read(file), project=project, home=home)


def export_cassette(transcript: Transcript) -> ExportFile:
    """A session in the format `cassette` of `kode session export`. Raises: SessionError for a
    session that cannot be replayed."""
    recording = make_recording(transcript)
    places = {"project": recording.project, "home": recording.home}
    about = {"type": "cassette", "version": VERSION, "kode": kode_version, **places}
    lines = [json.dumps(about).encode(), *transcript.lines()]
    return ExportFile(data=b"\n".join(lines) + b"\n", contains=CONTAINS)


# ── how a request of a replay differs ────────────────────────────────────────────────────────────
#
# Things that differ in every run are ignored: where the project lies, times, durations, random
# names, addresses, hashes of commits. Both sides are normalized before the comparison. Texts that
# memory added are not made again by a replay, and so not compared.

MAX_DIFF_LINES = 80
"""How many lines of one difference are shown; a note counts the others."""

_TIME = r"\d\d:\d\d(?::\d\d)?"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
VOLATILE = (
    (r"(?<=outside-)[0-9a-f]{16}", "NONCE"),
    (rf"\b\d{{4}}-\d\d-\d\d(?:[T ]{_TIME}(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", "DATE"),
    (rf"\b{_MONTH} +\d{{1,2}}(?:,? +(?:\d{{4}}|{_TIME}))*", "DATE"),
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "TIME"),
    (r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds)\b", "DURATION"),
    (r"\b0x[0-9a-f]{6,}\b", "ADDRESS"),
    (r"(/outputs/[\w.-]+-)[0-9a-f]{8}(?=\.)", r"\1NONCE"),
    (r"(?<=/tmp/)[\w.-]+", "NAME"),
    (r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b", "HASH"),
    # One in 27 short hashes has no letter: recognized by where git prints it.
    (r"(?m)^\d{7,12}(?= \S)", "HASH"),
    (r"(\[[\w./-]+(?: \(root-commit\))? )\d{7,12}(?=\])", r"\1HASH"),
)
"""Pattern of a text that differs in every run → its replacement."""

Piece = tuple[str, str, str]
"""A normalized text to compare: (part, name, text), as in `RequestDifference`."""


@dataclass(frozen=True, kw_only=True)
class RequestDifference:
    part: str
    """`system`, `tools`, `message` or `result`."""
    name: str
    """Which: a section of the system prompt, a tool, a role."""
    then: str
    now: str

    def diff(self) -> str:
        """A unified diff, from the record to the replay."""
        sides = self.then.splitlines(), self.now.splitlines()
        lines = [*difflib.unified_diff(*sides, "recorded", "replayed", lineterm="")]
        if (more := len(lines) - MAX_DIFF_LINES) > 0:
            lines[MAX_DIFF_LINES:] = [f"[and {more} more lines]"]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Compares texts of a record with those of a replay that may work elsewhere."""

    then_of: Mapping[str, str]
    """Paths of the replay → recorded paths."""

    def normalize(self, text: str) -> str:
        """A text of either side with recorded paths, and without what differs in every run."""
        for now in sorted(self.then_of, key=len, reverse=True):
            text = text.replace(now, self.then_of[now])
        text = redact_secrets(text)
        for pattern, word in VOLATILE:
            text = re.sub(pattern, word, text)
        return text

    def localize(self, text: str) -> str:
        """A recorded text with its paths replaced by those of the replay."""
        now_of = {then: now for now, then in self.then_of.items() if then != "/"}
        pattern = "|".join(map(re.escape, sorted(now_of, key=len, reverse=True)))
        return re.sub(rf"(?:{pattern})(?![\w.-])", lambda match: now_of[match[0]], text)

    def diff_messages(
        self, then: Sequence[Message], now: Sequence[Message]
    ) -> list[RequestDifference]:
        """The differences between two pieces of a conversation."""
        before, after = (
            [p for message in side for p in self._split_message(message)] for side in (then, now)
        )
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        return [
            RequestDifference(part=old[0] or new[0], name=old[1] or new[1], then=old[2], now=new[2])
            for kind, a, b, c, d in matcher.get_opcodes()
            if kind != "equal"
            for old, new in zip_longest(before[a:b], after[c:d], fillvalue=("", "", ""))
        ]

    def diff_sections(
        self, then: Mapping[str, str], now: Mapping[str, str]
    ) -> list[RequestDifference]:
        """The differences between two system prompts, section by section."""
        before, after = (
            {name: self.normalize(text) for name, text in side.items() if name != "memory"}
            for side in (then, now)
        )
        return _diff_by_name("system", before, after)

    def diff_tools(
        self, then: Sequence[ToolSpec], now: Sequence[ToolSpec]
    ) -> list[RequestDifference]:
        """The differences between the tools of two requests; in their order if in nothing else."""
        before, after = (
            {spec.name: json.dumps(asdict(spec), indent=1, ensure_ascii=False) for spec in side}
            for side in (then, now)
        )
        return _diff_by_name("tools", before, after) or _diff_by_name(
            "tools", {"order": "\n".join(before)}, {"order": "\n".join(after)}
        )

    def _split_message(self, message: Message) -> Iterator[Piece]:
        for part in message.parts:
            match part:
                case Text(text=text) if "memory" not in (part.source, part.section_name):
                    name = part.section_name if part.source == "opening" else part.source
                    yield "message", name or message.role, self.normalize(text)
                case Thinking(text=text):
                    yield "message", "thinking", self.normalize(text)
                case ToolCall(name=name, arguments=arguments):
                    yield "message", f"call of {name}", self.normalize(arguments)
                case ToolResult(name=name, text=text):
                    yield "result", name, self.normalize(text)
                case Image(name=name):
                    yield "message", "picture", name
                case _:
                    pass


def _diff_by_name(
    part: str, then: Mapping[str, str], now: Mapping[str, str]
) -> list[RequestDifference]:
    return [
        RequestDifference(part=part, name=name, then=then.get(name, ""), now=now.get(name, ""))
        for name in {**then, **now}
        if then.get(name, "") != now.get(name, "")
    ]
