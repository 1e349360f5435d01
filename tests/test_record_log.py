"""A line that a disk or a copy has changed is found in every log, and an older one is read."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from kode.memory import log, statement
from kode.messages import Text
from kode.record_log import is_intact, seal, seal_object, unseal_object
from kode.session import entries

LINES: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "session": (
        entries.line_of(
            entries.MessageEntry(role="user", parts=(Text(text="keep the port at 8080"),))
        ),
        entries.parse_line,
    ),
}
MEMORY = (
    log._line(statement.Change(who="user", kind="forget", system="tiered", reason="port 8080")),
    log._read,
)


def read(parse: Callable[[bytes], Any], line: bytes) -> Any:
    try:
        return parse(line)
    except ValueError:
        return None


@pytest.mark.parametrize(("line", "parse"), [*LINES.values(), MEMORY], ids=[*LINES, "memory"])
def test_no_flipped_bit_of_a_line_changes_its_content(
    line: bytes, parse: Callable[[bytes], Any]
) -> None:
    whole = parse(line)
    for at in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[at] ^= 1 << bit
            assert read(parse, bytes(flipped)) in (None, whole)


@pytest.mark.parametrize("name", LINES)
def test_a_line_without_a_checksum_is_read(name: str) -> None:
    line, parse = LINES[name]
    older = line[: line.rindex(b',"sum"')] + b"}"

    assert seal(older) == line
    assert is_intact(older)
    assert parse(older) == parse(line)


@pytest.mark.parametrize("name", LINES)
def test_a_line_edited_by_hand_needs_no_checksum(name: str) -> None:
    line, parse = LINES[name]
    edited = line.replace(b"8080", b"9090").replace(b"a.txt", b"b.txt").replace(b"1.5", b"2.5")

    assert read(parse, edited) is None
    assert parse(edited[: edited.rindex(b',"sum"')] + b"}") not in (None, parse(line))


def test_a_text_that_looks_like_a_checksum_is_none() -> None:
    text = 'look: ,"sum":"00000000"}'
    line = entries.line_of(entries.MessageEntry(role="user", parts=(Text(text=text),)))
    assert entries.parse_line(line).parts[0].text == text


def test_no_flipped_bit_of_an_object_changes_its_content() -> None:
    value = {"version": 1, "allow": ["shell(make:*)"], "more": {"größe": 1.5}}
    data = json.dumps(seal_object(value), indent=2).encode()
    assert unseal_object(json.loads(data)) == value
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            with contextlib.suppress(ValueError, AttributeError):
                read = unseal_object(json.loads(flipped))
                # A member that is no longer called `sum` is one that no reader asks for.
                assert {key: read[key] for key in value} == value


def test_an_object_edited_by_hand_needs_no_checksum() -> None:
    assert unseal_object({"version": 1, "allow": ["fetch"]}) == {"version": 1, "allow": ["fetch"]}
