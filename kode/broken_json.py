"""Reads JSON as models write it: inside other text, with slips, cut off, or none at all."""

import json
import re
from typing import Any

_CUT = re.compile(r"\s*(?=\Z|```|~~~|<)")
_AFTER_STRING = r"\s*(?:[,:}\]]|\Z|```|~~~|<)"
_LOOSE_VALUE = re.compile(
    rf"""(?s)\s*(?:(?P<mark>[{{}}\[\],:])|(?P<word>"(?!"")(?:[^"\\]|\\.|"(?!{_AFTER_STRING}))*"|"""
    rf"""'(?:[^'\\]|\\.|'(?!{_AFTER_STRING}))*'|[\w.+-]+))"""
)
"""An unescaped quote belongs to a string only where a string cannot end."""
_LOOSE_KEY = re.compile(r"""\s*(?:(?P<mark>[{}])|(?P<word>"[^"\\\n]*"|'[^'\\\n]*'|[\w.-]+))""")
_ESCAPE = re.compile(r'(?s)\\(u[0-9a-fA-F]{4}|.)|"')
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


def object_of(text: str | bytes) -> dict[str, Any] | None:
    """Parses a text that is a JSON object; None for any other text."""
    value = parse_value(text, strict=True)
    return value if isinstance(value, dict) else None


def parse_value(text: str | bytes, *, strict: bool = False) -> Any:
    """Parses a JSON value; strings may have line breaks unless `strict`. None for other text."""
    try:
        return json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None


def parse_value_at(text: str, position: int) -> tuple[Any, int] | None:
    """The value that begins at `position`, and the index where it ends; None if there is none."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, position)
    except (ValueError, RecursionError):
        return None


def parse_loosely_at(text: str, position: int) -> tuple[Any, int] | None:
    """The value that begins at `position` as models write it, and the index where it ends; None if
    there is none.

    Accepted are Python's quotes and constants, keys without quotes, extra commas, doubled braces,
    brackets missing before a fence, a tag or the end, and quotes in a string that cannot end it.
    Strings stay as they are. Comments are not accepted: a text with them explains something.
    """
    pieces, closers, at = [""], list[str](), position  # the same as strict JSON
    while closers or len(pieces) == 1:
        is_key = bool(closers) and closers[-1] != "]" and pieces[-1] in ("{", ",")
        token = (_LOOSE_KEY if is_key else _LOOSE_VALUE).match(text, at)
        if token is None:
            cut = _CUT.match(text, at)
            if cut is None or "" in closers or pieces[-1] in ("", "{", "[", ",", ":"):
                return None
            at = cut.end()
            pieces += reversed(closers)
            break
        at = token.end()
        mark, word = token["mark"], token["word"]
        if mark == "{" and is_key:  # doubled, as in a format string
            if pieces[-1] != "{":
                return None
            closers.append("")
        elif mark in ("{", "["):
            closers.append("}" if mark == "{" else "]")
            pieces.append(mark)
        elif mark in ("}", "]"):
            if pieces[-1] == "," and pieces[-2] not in ("{", "["):
                pieces.pop()
            if (closers or ["?"]).pop() != "":
                pieces.append(mark)
            elif mark != "}" or not text[at:].lstrip().startswith("}"):
                return None  # more than one object in the doubled braces
        elif mark:
            pieces.append(mark)
        elif is_key:
            pieces.append(json.dumps(word.strip("\"'")))
        else:
            is_quoted = word[0] in "\"'"
            text_of_string = _ESCAPE.sub(_fix_escape, word[1:-1]) if is_quoted else ""
            pieces.append(f'"{text_of_string}"' if is_quoted else _CONSTANTS.get(word, word))
    try:
        return json.loads(" ".join(pieces), strict=False), at
    except (ValueError, RecursionError):
        return None


def _fix_escape(match: re.Match[str]) -> str:
    """Turns an escape into JSON's; a backslash that escapes nothing stays."""
    escaped = match[1]
    if escaped is None:
        return '\\"'
    if escaped == "'":
        return escaped
    return match[0] if escaped[0] in 'u"\\/bfnrt' and escaped != "u" else f"\\\\{escaped}"
