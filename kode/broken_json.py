"""JSON as models write it: inside other text, with slips, or cut off."""

import json
import re
from typing import Any

STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf'(?s){STRING}|["{{}}\[\]]')
_WORD_CHARACTER = re.compile(r"\w")


def whole(text: str) -> Any:
    """The value that a text is, line breaks inside strings allowed; None for another text."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def value_at(text: str, at: int) -> tuple[Any, int] | None:
    """The value that begins at a place, and where it ends; None where none does."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def is_closed(text: str) -> bool:
    """Whether every bracket and every string that the first object opens is closed again."""
    depth = 0
    for token in _TOKEN.finditer(text, max(0, text.find("{"))):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
            if depth == 0:
                return True
        elif len(token[0]) == 1:
            return False  # a quote that begins a string without an end
    return False


def ends_in_string(text: str) -> bool:
    """Whether the last quote of a text opens a string that nothing closes."""
    quotes = [token[0] for token in _TOKEN.finditer(text) if token[0][0] == '"']
    return bool(quotes) and quotes[-1] == '"'


def repaired(text: str, opening: str) -> Any:
    """What the first `opening` bracket in a broken text begins, repaired by guessing; None where
    there is none."""
    start = text.find(opening)
    if start < 0:
        return None
    import json_repair

    try:
        return json_repair.loads(text[start:])
    except (ValueError, RecursionError, TypeError):
        return None


def repaired_without_loss(text: str) -> Any:
    """The object that a broken text is, where repairing it was a matter of brackets, commas and
    quotes: every letter and digit is still there, in order. None where it is not."""
    if ends_in_string(text):
        return None
    value = repaired(text, "{")
    said = json.dumps(value, ensure_ascii=False)
    same = _WORD_CHARACTER.findall(said) == _WORD_CHARACTER.findall(text)
    return value if isinstance(value, dict) and same else None
