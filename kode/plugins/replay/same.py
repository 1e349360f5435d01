"""Compares a recorded request with a replayed one, and shows differences.

Things that differ in every run are ignored: paths of the copy, times, durations, random names,
addresses, hashes of commits. Both sides are normalized before the comparison.
"""

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from kode.plugin import (
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    credentials,
    paths,
    section_of,
)
from kode.plugins.replay.recording import Recording

Part = Literal["system", "tools", "message", "result"]

MAX_DIFF_LINES = 80
"""Limit of one difference."""

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
VOLATILE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<=outside-)[0-9a-f]{16}"), "NONCE"),
    (
        re.compile(
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
        ),
        "DATE",
    ),
    (re.compile(rf"\b{_MONTH} +\d{{1,2}}(?:,? +(?:\d{{4}}|\d\d:\d\d(?::\d\d)?))*"), "DATE"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "TIME"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds)\b"), "DURATION"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"(/outputs/[\w.-]+-)[0-9a-f]{8}(?=\.)"), r"\1NONCE"),
    (re.compile(r"(?<=/tmp/)[\w.-]+"), "NAME"),
    (re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"), "HASH"),
    # One in 27 short hashes has no letter: recognized by where git prints it.
    (re.compile(r"(?m)^\d{7,12}(?= \S)"), "HASH"),
    (re.compile(r"(\[[\w./-]+(?: \(root-commit\))? )\d{7,12}(?=\])"), r"\1HASH"),
)
"""What differs in every run → its replacement."""


SECTIONS = {
    "place": "Where you are",
    "instructions": "Instructions of this project",
    "skills": "Skills",
}
"""What sections of the opening are called in the report."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    part: Part
    name: str
    """Which: a section of the system prompt, a tool, a role."""
    then: str
    now: str

    def diff(self) -> str:
        """A unified diff, from the record to the replay."""
        lines = list(
            difflib.unified_diff(
                self.then.splitlines(), self.now.splitlines(), "recorded", "replayed", lineterm=""
            )
        )
        if len(lines) > MAX_DIFF_LINES:
            more = len(lines) - MAX_DIFF_LINES
            lines = [*lines[:MAX_DIFF_LINES], f"[and {more} more lines]"]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Form:
    """Normalizes texts for comparison."""

    now_to_then: tuple[tuple[str, str], ...] = ()
    """Paths of the copy → recorded paths, the longest first."""

    @classmethod
    def between(
        cls, recording: Recording, home: Path, project: Path, session_id: str | None
    ) -> "Form":
        """Hides where a session now, its home and its project lie."""
        pairs = {str(home): recording.home, str(project): recording.project}
        if session_id is not None:
            then_id = recording.header.id
            then_folder = paths.session_folder(Path(recording.home), then_id)
            pairs[str(paths.session_folder(home, session_id))] = str(then_folder)
            pairs[session_id] = then_id
        return cls(now_to_then=tuple(sorted(pairs.items(), key=lambda pair: -len(pair[0]))))

    def of(self, text: str) -> str:
        """A text of either side, normalized."""
        for now, then in self.now_to_then:
            text = text.replace(now, then)
        text = credentials.redact(text)
        for pattern, word in VOLATILE:
            text = pattern.sub(word, text)
        return text

    def then_to_now(self, text: str) -> str:
        """A recorded text with the paths of the copy."""
        by_then = {then: now for now, then in self.now_to_then if then != "/"}
        if not by_then:
            return text
        ordered = sorted(by_then, key=len, reverse=True)
        pattern = "|".join(re.escape(then) for then in ordered)
        return re.sub(rf"(?:{pattern})(?![\w.-])", lambda match: by_then[match[0]], text)

    def blocks(self, message: Message) -> list[tuple[Part, str, str]]:
        """The compared pieces of a message: (part, name, text)."""
        found: list[tuple[Part, str, str]] = []
        for piece in message.parts:
            match piece:
                case Text(text=text, source="opening"):
                    section = section_of(piece)
                    found.append(("message", SECTIONS.get(section, section), self.of(text)))
                case Text(text=text, source=source):
                    found.append(("message", source or message.role, self.of(text)))
                case Thinking(text=text):
                    found.append(("message", "thinking", self.of(text)))
                case ToolCall(name=name, arguments=arguments):
                    found.append(("message", f"call of {name}", self.of(arguments)))
                case ToolResult(name=name, text=text):
                    found.append(("result", name, self.of(text)))
                case Image(name=name):
                    found.append(("message", "picture", name))
        return found

    def messages(self, then: Sequence[Message], now: Sequence[Message]) -> list[Difference]:
        """The differences between two pieces of a conversation."""
        before = [block for message in then for block in self.blocks(message)]
        after = [block for message in now for block in self.blocks(message)]
        return _pairs(before, after)

    def sections(self, then: dict[str, str], now: dict[str, str]) -> list[Difference]:
        """The differences between two system prompts, section by section."""
        return [
            Difference(part="system", name=name, then=before, now=after)
            for name in dict.fromkeys((*then, *now))
            if (before := self.of(then.get(name, ""))) != (after := self.of(now.get(name, "")))
        ]

    def tools(self, then: Sequence[ToolSpec], now: Sequence[ToolSpec]) -> list[Difference]:
        """The differences between the tools of two requests; last, in their order."""
        before, after = {spec.name: spec for spec in then}, {spec.name: spec for spec in now}
        differences = [
            Difference(
                part="tools", name=name, then=_spec(before.get(name)), now=_spec(after.get(name))
            )
            for name in dict.fromkeys((*before, *after))
            if _spec(before.get(name)) != _spec(after.get(name))
        ]
        if not differences and list(before) != list(after):
            order = Difference(
                part="tools", name="order", then="\n".join(before), now="\n".join(after)
            )
            differences.append(order)
        return differences


def _pairs(then: list[tuple[Part, str, str]], now: list[tuple[Part, str, str]]) -> list[Difference]:
    """Differences between corresponding pieces."""
    differences = []
    matcher = difflib.SequenceMatcher(None, then, now, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            continue
        before, after = then[a:b], now[c:d]
        for index in range(max(len(before), len(after))):
            old = before[index] if index < len(before) else None
            new = after[index] if index < len(after) else None
            part, name, _ = old or new or ("message", "", "")
            differences.append(
                Difference(
                    part=part, name=name, then=old[2] if old else "", now=new[2] if new else ""
                )
            )
    return differences


def _spec(spec: ToolSpec | None) -> str:
    return "" if spec is None else json.dumps(asdict(spec), indent=1, ensure_ascii=False)
