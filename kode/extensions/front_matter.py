"""The head of a Markdown file: YAML between two lines of `---`. Read leniently, since the files
were written for other agents; what was wrong is said.

What the fields mean is the business of `skills`, `commands` and `agents`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_HEAD_CHARS = 16_000

_HEAD = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Document:
    body: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    """Why the head could not be read, a few words; then there are no fields."""

    def text(self, name: str) -> str:
        """A field as one text; "" when it is missing. A list becomes its parts with commas."""
        return ", ".join(self.texts(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """A field as texts: those of a list, or the one that stands there."""
        value = self.fields.get(name)
        values = value if isinstance(value, list) else [value]
        return tuple(found for one in values if (found := _plain(one)))

    def is_set(self, name: str) -> bool:
        """Whether a field says yes."""
        return self.text(name).lower() in ("true", "yes")


def read(text: str) -> Document:
    """Splits a file into its fields and its body. A head that is no YAML is tried once more with
    each line that is none by itself in quotes: `description: Use when: it rains` is common. Never
    raises."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    match = _HEAD.match(text)
    if match is None:
        return Document(body=text.strip())
    body, head = text[match.end() :].strip(), match[1]
    if len(head) > MAX_HEAD_CHARS:
        return Document(body=body, problem=f"its head has over {MAX_HEAD_CHARS} characters")
    fields = _loaded(head)
    if fields is None:
        fields = _loaded(_LINE.sub(_quoted, head))
    if fields is None:
        return Document(body=body, problem="its head is no YAML")
    return Document(body=body, fields=fields)


def _loaded(head: str) -> dict[str, Any] | None:
    import yaml

    try:
        # The same in C, five times as fast, where the wheel has it.
        value = yaml.load(head, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError):  # a date that is none is a ValueError
        return None
    if value is None:
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else None


def _quoted(line: re.Match[str]) -> str:
    """A line that is no YAML by itself, with its value in quotes."""
    if _loaded(line[0]) is not None:
        return line[0]
    escaped = line[2].replace("\\", "\\\\").replace('"', '\\"')
    return f'{line[1]}: "{escaped}"'


def _plain(value: Any) -> str:
    """Only what is plain: an alias in YAML can stand for more text than a machine holds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, str | int | float) else ""
