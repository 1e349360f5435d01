"""Reads JSON that may be none, and JSON as models write it: inside other text, with slips, or cut
off."""

import json
import re
from typing import Any

STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf'(?s){STRING}|["{{}}\[\]]')
_WORD_CHARACTER = re.compile(r"\w")


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


def value_at(text: str, at: int) -> tuple[Any, int] | None:
    """The value that begins at index `at`, and the index where it ends; None if there is none."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


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


def ends_in_string(text: str) -> bool:
    """Whether the text ends inside a string."""
    quotes = [token[0] for token in _TOKEN.finditer(text) if token[0][0] == '"']
    return bool(quotes) and quotes[-1] == '"'


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


def repair_without_loss(text: str) -> Any:
    """The object in a broken text, if repairing it touches only brackets, commas and quotes: all
    letters and digits stay, in order. None otherwise."""
    if ends_in_string(text):
        return None
    value = repair(text, "{")
    said = json.dumps(value, ensure_ascii=False)
    same = _WORD_CHARACTER.findall(said) == _WORD_CHARACTER.findall(text)
    return value if isinstance(value, dict) and same else None
