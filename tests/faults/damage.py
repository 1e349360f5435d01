"""Ways to damage a file, for hypothesis. Every one starts from a valid file, since bytes drawn at
random test little more than the first line of a parser.

Bytes are flipped, cut, doubled and put in; values inside JSON get other types, sizes and shapes.
"""

import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

DEEP = b"[" * 20_000 + b"]" * 20_000
HUGE = b"9" * 5_000
_CHECKSUM = re.compile(rb"[0-9a-f]{8} ")
SHOWN_BYTES = 3_000
_DEEP, _HUGE, _HALF = "@deep@", "@huge@", "@half@"
"""Stand for what `json.dumps` cannot write."""

ODD_BYTES = (
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n\n\n",
    b"\xc3",
    b"\xed\xa0\x80",
    b'"\\ud800"',
    "\u2028\u202e\u200b".encode(),
    b"\x1b[2J\x1b]0;title\x07",
    b"NaN",
    b"{",
    b"]",
    b'"',
    "§\n§\n".encode(),
    b"---\n",
    b"## 2026-99-99T99:99Z\n",
    b"%s{0}${HOME}",
)

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    " \n\t",
    "../../../../etc/passwd",
    "a" * 70_000,
    "2026-13-45T99:99:99Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "\x1b[31m\x07\u202e",
    _DEEP,
    _HUGE,
    _HALF,
    json.loads("[" * 300 + "]" * 300),
    [],
    [None],
    ["x", 1, {}],
    {},
    {"type": "x"},
    {"": None},
)


@dataclass(frozen=True)
class Bytes:
    """What a file holds; shows itself in so many words that a failure can be read."""

    data: bytes

    def __repr__(self) -> str:
        if len(self.data) <= SHOWN_BYTES:
            return repr(self.data)
        half = SHOWN_BYTES // 2
        left_out = len(self.data) - SHOWN_BYTES
        return f"{self.data[:half]!r} ... {left_out} bytes ... {self.data[-half:]!r}"


def damaged(valid: bytes) -> st.SearchStrategy[Bytes]:
    """One to three faults in a valid file, or something else altogether in its place."""
    steps = [_flipped, _cut, _put_in, _line_doubled, _line_lost, _lines_swapped]
    if _parts(valid):
        steps += [_value_changed] * 6

    @st.composite
    def broken(draw: st.DrawFn) -> bytes:
        data = valid
        for _ in range(draw(st.integers(1, 3))):
            data = draw(draw(st.sampled_from(steps))(data))
        return data

    return st.one_of(broken(), broken(), broken(), broken(), _replaced(valid)).map(Bytes)


def _replaced(valid: bytes) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.binary(max_size=200),
        st.sampled_from([b"", b"\0" * 4096, DEEP, b"null", b"[]", b"{}", b"7", b'"x"', HUGE]),
        st.just(b"\xef\xbb\xbf" + valid),
        st.just(valid.replace(b"\n", b"\r\n")),
        st.just(valid.decode(errors="replace").encode("utf-16")),
        st.just(valid + b"x" * 300_000 + b"\n"),
    )


def _flipped(data: bytes) -> st.SearchStrategy[bytes]:
    if not data:
        return st.just(data)

    def flip(place: tuple[int, int]) -> bytes:
        at, bit = place
        return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]

    return st.tuples(st.integers(0, len(data) - 1), st.integers(0, 7)).map(flip)


def _cut(data: bytes) -> st.SearchStrategy[bytes]:
    places = st.integers(0, len(data))
    return st.one_of(
        places.map(lambda end: data[:end]),
        st.tuples(places, places).map(lambda ends: data[: min(ends)] + data[max(ends) :]),
    )


def _put_in(data: bytes) -> st.SearchStrategy[bytes]:
    odd = st.one_of(st.sampled_from(ODD_BYTES), st.binary(min_size=1, max_size=8))
    return st.tuples(st.integers(0, len(data)), odd).map(
        lambda drawn: data[: drawn[0]] + drawn[1] + data[drawn[0] :]
    )


def _line_doubled(data: bytes) -> st.SearchStrategy[bytes]:
    lines = data.split(b"\n")
    return st.integers(0, len(lines) - 1).map(
        lambda at: b"\n".join([*lines[: at + 1], lines[at], *lines[at + 1 :]])
    )


def _line_lost(data: bytes) -> st.SearchStrategy[bytes]:
    lines = data.split(b"\n")
    return st.integers(0, len(lines) - 1).map(
        lambda at: b"\n".join([*lines[:at], *lines[at + 1 :]])
    )


def _lines_swapped(data: bytes) -> st.SearchStrategy[bytes]:
    lines = data.split(b"\n")

    def swap(places: tuple[int, int]) -> bytes:
        one, other = places
        swapped = [*lines]
        swapped[one], swapped[other] = lines[other], lines[one]
        return b"\n".join(swapped)

    at = st.integers(0, len(lines) - 1)
    return st.tuples(at, at).map(swap)


# ── inside JSON ──────────────────────────────────────────────────────────────────────────────


def _parts(data: bytes) -> list[tuple[int, Any]]:
    """(number of the line, value) of each JSON line, also behind a checksum, or the whole as line
    -1; else empty."""
    try:
        return [(-1, json.loads(data))]
    except (ValueError, RecursionError):
        pass
    parts = []
    for number, line in enumerate(data.split(b"\n")):
        try:
            value = json.loads(_CHECKSUM.sub(b"", line))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list):
            parts.append((number, value))
    return parts


def _value_changed(data: bytes) -> st.SearchStrategy[bytes]:
    """One value somewhere inside is another, or gone, or under another name."""
    parts = _parts(data)
    if not parts:
        return st.just(data)

    @st.composite
    def changed(draw: st.DrawFn) -> bytes:
        number, value = draw(st.sampled_from(parts))
        places = _places(value)
        if not places:
            return data
        place = draw(st.sampled_from(places))
        how = draw(st.sampled_from(["set", "set", "set", "set", "remove", "rename"]))
        new = _text(_with(value, place, how, draw(st.sampled_from(ODD_VALUES))))
        if number < 0:
            return new
        lines = data.split(b"\n")
        is_checked = _CHECKSUM.match(lines[number])
        lines[number] = b"%08x %s" % (zlib.crc32(new), new) if is_checked else new
        return b"\n".join(lines)

    return changed()


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(min(len(value), 5)))
    here = [(*path, key) for key in keys]
    return here + [deep for key in keys for deep in _places(value[key], (*path, key))]


def _with(value: Any, path: tuple[Any, ...], how: str, new: Any) -> Any:
    key, *rest = path
    if isinstance(value, list):
        copied: Any = list(value)
    else:
        copied = dict(value)
    if rest:
        copied[key] = _with(value[key], tuple(rest), how, new)
    elif how == "remove":
        del copied[key]
    elif how == "rename" and isinstance(copied, dict):
        copied[f"{key}x"] = copied.pop(key)
    else:
        copied[key] = new
    return copied


def _text(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    for mark, stands_for in ((_DEEP, DEEP), (_HUGE, HUGE), (_HALF, b'"\\ud800"')):
        text = text.replace(f'"{mark}"'.encode(), stands_for)
    return text
