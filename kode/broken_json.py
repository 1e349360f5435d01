"""Reads JSON that may be none, and JSON as models write it: inside other text, with slips, or cut
off."""

import json
import re
from typing import Any

STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf'(?s){STRING}|["{{}}\[\]]')
_SPACE = re.compile(r"\s*")
_CUT = re.compile(r"\Z|```|~~~|<")
_AFTER_STRING = rf"\s*(?:[,:}}\]]|{_CUT.pattern})"
_QUOTED = re.compile(
    rf"""(?s)"(?!"")(?:[^"\\]|\\.|"(?!{_AFTER_STRING}))*"|'(?:[^'\\]|\\.|'(?!{_AFTER_STRING}))*'"""
)
"""A quote that nobody escaped belongs to the string only where none could end it."""
_KEY = re.compile(r"""\"[^"\\\n]*"|'[^'\\\n]*'|[\w.-]+""")
_ESCAPE = re.compile(r'(?s)\\(u[0-9a-fA-F]{4}|.)|"')
_BARE = re.compile(r"[\w.+-]+")
_CONSTANTS = {"True": True, "False": False, "None": None}


def object_of(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that a text is, however it came about; None for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def whole(text: str) -> Any:
    """Parses a text that is one JSON value, line breaks in strings allowed; None otherwise."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def value_at(text: str, position: int) -> tuple[Any, int] | None:
    """The value that begins at `position`, and the index where it ends; None if there is none."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, position)
    except (ValueError, RecursionError):
        return None


def loose_value_at(text: str, position: int) -> tuple[Any, int] | None:
    """The value that begins at `position` as models write it, and the index where it ends; None if
    there is none.

    Read are Python's quotes and constants, keys without quotes, extra commas, doubled braces,
    brackets missing before a fence, a tag or the end, and quotes in a string that cannot end it.
    Strings are taken with all they hold; comments are not, since they explain.
    """
    reader = _LooseReader(text, position)
    try:
        return reader.value(), reader.at
    except (ValueError, RecursionError):
        return None


class _LooseReader:
    """Raises ValueError for everything that it cannot read."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def value(self) -> Any:
        if self._skip("{"):
            return self._object()
        if self._skip("["):
            return self._list()
        quoted = _QUOTED.match(self.text, self.at)
        if quoted:
            self.at = quoted.end()
            return _unquoted(quoted[0])
        word = self._word()
        return _CONSTANTS[word] if word in _CONSTANTS else json.loads(word)

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._skip_space()
        if self.text.startswith("{", self.at):  # doubled, as in a format string
            found = self.value()
            self._skip_space()
            if not self._skip("}"):
                raise ValueError("an object in place of a key")
            return found
        while not self._skip("}"):
            key = _KEY.match(self.text, self.at)
            self.at = key.end() if key else self.at
            self._skip_space()
            if key is None or not self._skip(":"):
                raise ValueError("no key")
            self._skip_space()
            found[key[0].strip("\"'")] = self.value()
            if self._is_last():
                break
        return found

    def _list(self) -> list[Any]:
        found: list[Any] = []
        self._skip_space()
        while not self._skip("]"):
            found.append(self.value())
            if self._is_last():
                break
        return found

    def _is_last(self) -> bool:
        """Whether the text ends after this value, without a bracket. A comma means that more was to
        come."""
        self._skip_space()
        has_comma = self._skip(",")
        self._skip_space()
        if has_comma or self.text.startswith(("}", "]"), self.at):
            return False
        if _CUT.match(self.text, self.at) is None:
            raise ValueError("no comma")
        return True

    def _skip(self, character: str) -> bool:
        found = self.text.startswith(character, self.at)
        self.at += found
        return found

    def _skip_space(self) -> None:
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at

    def _word(self) -> str:
        word = _BARE.match(self.text, self.at)
        if word is None:
            raise ValueError("no value")
        self.at = word.end()
        return word[0]


def _unquoted(quoted: str) -> str:
    """The content of a string in either quotes; a backslash that escapes nothing stays."""

    def escape(found: re.Match[str]) -> str:
        escaped = found[1]
        if escaped is None:
            return '\\"'
        if escaped == "'":
            return escaped
        return found[0] if escaped[0] in 'u"\\/bfnrt' and escaped != "u" else f"\\\\{escaped}"

    text: str = json.loads(f'"{_ESCAPE.sub(escape, quoted[1:-1])}"', strict=False)
    return text


def is_closed(text: str) -> bool:
    """Whether every bracket and string of the first object is closed."""
    depth = 0
    for token in _TOKEN.finditer(text, max(0, text.find("{"))):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
            if depth == 0:
                return True
        elif len(token[0]) == 1:
            return False  # an unterminated string
    return False


def repair(text: str, opening: str) -> Any:
    """Repairs by guessing what the first `opening` bracket begins; None without one."""
    start = text.find(opening)
    if start < 0:
        return None
    import json_repair

    try:
        return json_repair.loads(text[start:])
    except (ValueError, RecursionError, TypeError):
        return None
