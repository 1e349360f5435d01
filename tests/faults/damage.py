"""Ways to damage a file, for hypothesis. Every one starts from a valid file, since bytes drawn at
random test little more than the first line of a parser.

Bytes are flipped, cut, doubled and put in; values inside JSON get other types, sizes and shapes.
"""

import json
from typing import Any

from hypothesis import HealthCheck, Phase, settings, strategies as st

from tests.effort import EVERYTHING

DEEP = b"[" * 20_000 + b"]" * 20_000
HUGE = b"9" * 5_000
UNWRITABLE = {"@deep@": DEEP, "@huge@": HUGE, "@half@": b'"\\ud800"'}
"""What `json.dumps` cannot write, by the text that stands for it."""

ODD_BYTES = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\n\n\n", b"\xc3", b"\xed\xa0\x80"),
    *(b'"\\ud800"', "\u2028\u202e\u200b".encode(), b"\x1b[2J\x1b]0;title\x07", b"NaN", b"{", b"]"),
    *(b'"', "§\n§\n".encode(), b"---\n", b"## 2026-99-99T99:99Z\n", b"%s{0}${HOME}"),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "x", " \n\t"),
    *("../../../../etc/passwd", "a" * 70_000, "\x1b[31m\x07\u202e", *UNWRITABLE),
    *("2026-13-45T99:99:99Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    *(json.loads("[" * 300 + "]" * 300), [], [None], ["x", 1, {}], {}, {"type": "x"}, {"": None}),
)
OTHER_FILES = (b"", b"\0" * 4096, DEEP, b"null", b"[]", b"{}", b"7", b'"x"', HUGE)


def limit_examples(every: int, few: int) -> settings:
    """So many examples, the same each time unless everything is tried. They are not made smaller:
    what fails can be read as it is, and that takes minutes."""
    return settings(
        max_examples=every if EVERYTHING else few,
        deadline=None,
        derandomize=not EVERYTHING,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


def damaged(valid: bytes) -> st.SearchStrategy[bytes]:
    """One to three faults in a valid file, or something else altogether in its place."""
    faults = [_flip, _cut, _put_in, _change_lines] + [_change_value] * 6 * bool(_values(valid))

    @st.composite
    def broken(draw: st.DrawFn) -> bytes:
        data = valid
        for _ in range(draw(st.integers(1, 3))):
            data = draw(st.sampled_from(faults))(draw, data)
        return data

    other = st.one_of(
        st.binary(max_size=200),
        st.sampled_from(OTHER_FILES),
        st.just(b"\xef\xbb\xbf" + valid),
        st.just(valid.replace(b"\n", b"\r\n")),
        st.just(valid.decode(errors="replace").encode("utf-16")),
        st.just(valid + b"x" * 300_000 + b"\n"),
    )
    return st.one_of(broken(), broken(), broken(), broken(), other)


def _flip(draw: st.DrawFn, data: bytes) -> bytes:
    if not data:
        return data
    at, bit = draw(st.integers(0, len(data) - 1)), draw(st.integers(0, 7))
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def _cut(draw: st.DrawFn, data: bytes) -> bytes:
    begin, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
    return data[:begin] + data[end:] * draw(st.booleans())


def _put_in(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    odd = st.one_of(st.sampled_from(ODD_BYTES), st.binary(min_size=1, max_size=8))
    return data[:at] + draw(odd) + data[at:]


def _change_lines(draw: st.DrawFn, data: bytes) -> bytes:
    """One is doubled or lost, or two change places."""
    lines = data.split(b"\n")
    at, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match draw(st.sampled_from(["double", "lose", "swap"])):
        case "double":
            lines.insert(at, lines[at])
        case "lose":
            del lines[at]
        case _:
            lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


# ── inside JSON ──────────────────────────────────────────────────────────────────────────────


def _values(data: bytes) -> list[tuple[int, Any]]:
    """(number of the line, value) of each JSON line, or the whole as line -1; else empty."""
    values = []
    for number, text in [(-1, data), *enumerate(data.split(b"\n"))]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list):
            values.append((number, value))
    return values[:1] if values and values[0][0] < 0 else values


def _change_value(draw: st.DrawFn, data: bytes) -> bytes:
    """One value somewhere inside is another, or gone, or under another name."""
    values = [(number, value) for number, value in _values(data) if value]
    if not values:
        return data
    number, value = draw(st.sampled_from(values))
    container, key = draw(st.sampled_from(_places(value)))
    how = draw(st.sampled_from(["set", "set", "set", "set", "remove", "rename"]))
    before = container.pop(key)
    if how == "rename" and isinstance(container, dict):
        container[f"{key}x"] = before
    elif how != "remove":
        new = draw(st.sampled_from(ODD_VALUES))
        container.insert(key, new) if isinstance(container, list) else container.update({key: new})
    text = _text(value)
    if number < 0:
        return text
    lines = data.split(b"\n")
    lines[number] = text
    return b"\n".join(lines)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(list or object, index or key) of all values inside."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(min(len(value), 5)))
    return [(value, key) for key in keys] + [p for key in keys for p in _places(value[key])]


def _text(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    for mark, written in UNWRITABLE.items():
        text = text.replace(f'"{mark}"'.encode(), written)
    return text
