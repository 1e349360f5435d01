"""Reads the front matter of a Markdown file: YAML between two lines of `---`. Lenient, because the
files were written for other agents; problems are reported.

`skills`, `commands` and `agents` interpret the fields.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_HEAD_CHARS = 16_000  # many times the longest description

_HEAD = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Document:
    body: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    """Why the front matter could not be read, a few words; then there are no fields."""

    def text(self, name: str) -> str:
        """A field as one text; "" if it is missing. A list is joined with commas."""
        return ", ".join(self.texts(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """A field as a list of texts; a single text becomes a list of one."""
        value = self.fields.get(name)
        values = value if isinstance(value, list) else [value]
        return tuple(plain for value in values if (plain := _plain(value)))

    def is_set(self, name: str) -> bool:
        """Whether a boolean field is true."""
        return self.text(name).lower() in ("true", "yes")


def read(text: str) -> Document:
    """Splits a file into fields and body. Invalid YAML is tried once more with each invalid line
    quoted: `description: Use when: it rains` is common. Never raises."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    match = _HEAD.match(text)
    if match is None:
        return Document(body=text.strip())
    body, head = text[match.end() :].strip(), match[1]
    if len(head) > MAX_HEAD_CHARS:
        return Document(body=body, problem=f"its front matter has over {MAX_HEAD_CHARS} characters")
    fields = _load(head)
    if fields is None:
        fields = _load(_LINE.sub(_quote, head))
    if fields is None:
        return Document(body=body, problem="its front matter is not YAML")
    return Document(body=body, fields=fields)


def _load(head: str) -> dict[str, Any] | None:
    import yaml

    try:
        # The same in C, five times as fast, if the wheel has it.
        value = yaml.load(head, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError):  # an invalid date is a ValueError
        return None
    if value is None:
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else None


def _quote(line: re.Match[str]) -> str:
    """Quotes the value of a line that is not valid YAML by itself."""
    if _load(line[0]) is not None:
        return line[0]
    escaped = line[2].replace("\\", "\\\\").replace('"', '\\"')
    return f'{line[1]}: "{escaped}"'


def _plain(value: Any) -> str:
    """Allows only plain values: an alias in YAML can expand to more text than fits in memory."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, str | int | float) else ""
