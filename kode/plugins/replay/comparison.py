"""Compares a recorded request with a replayed one, and shows differences.

Things that differ in every run are ignored: where the project lies, times, durations, random names,
addresses, hashes of commits. Both sides are normalized before the comparison. What memory added is
not made again, and not compared.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest

from kode.plugin import (
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    redact_secrets,
)

MAX_DIFF_LINES = 80
"""Limit of one difference."""

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
"""What differs in every run → its replacement."""

Piece = tuple[str, str, str]
"""What is compared: (part, name, text)."""


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
        """A text of either side as it is compared."""
        for now in sorted(self.then_of, key=len, reverse=True):
            text = text.replace(now, self.then_of[now])
        text = redact_secrets(text)
        for pattern, word in VOLATILE:
            text = re.sub(pattern, word, text)
        return text

    def localize(self, text: str) -> str:
        """A recorded text with the paths of the replay."""
        now_of = {then: now for now, then in self.then_of.items() if then != "/"}
        pattern = "|".join(map(re.escape, sorted(now_of, key=len, reverse=True)))
        return re.sub(rf"(?:{pattern})(?![\w.-])", lambda match: now_of[match[0]], text)

    def messages(self, then: Sequence[Message], now: Sequence[Message]) -> list[RequestDifference]:
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

    def sections(self, then: Mapping[str, str], now: Mapping[str, str]) -> list[RequestDifference]:
        """The differences between two system prompts, section by section."""
        before, after = (
            {name: self.normalize(text) for name, text in side.items() if name != "memory"}
            for side in (then, now)
        )
        return _by_name("system", before, after)

    def tools(self, then: Sequence[ToolSpec], now: Sequence[ToolSpec]) -> list[RequestDifference]:
        """The differences between the tools of two requests; last, in their order."""
        before, after = (
            {spec.name: json.dumps(asdict(spec), indent=1, ensure_ascii=False) for spec in side}
            for side in (then, now)
        )
        return _by_name("tools", before, after) or _by_name(
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


def _by_name(part: str, then: Mapping[str, str], now: Mapping[str, str]) -> list[RequestDifference]:
    return [
        RequestDifference(part=part, name=name, then=then.get(name, ""), now=now.get(name, ""))
        for name in {**then, **now}
        if then.get(name, "") != now.get(name, "")
    ]
