"""A line or object that a disk or a copy has changed is found; one edited by hand is read."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from kode.durable import is_intact, seal, seal_object, unseal_object
from kode.memory import log, statement
from kode.messages import Text
from kode.session import entries


def line_of(text: str) -> bytes:
    return entries.line_of(entries.MessageEntry(role="user", parts=(Text(text=text),)))


def read(parse: Callable[[bytes], Any], line: bytes) -> Any:
    try:
        return parse(line)
    except ValueError:
        return None


CHANGE = statement.Change(who="user", kind="forget", system="tiered", reason="port 8080")
LINES = {
    "session": (line_of("keep the port at 8080"), entries.parse_line),
    "memory": (log._line(CHANGE), log._read),
}


@pytest.mark.parametrize("name", LINES)
def test_no_flipped_bit_of_a_line_changes_its_content(name: str) -> None:
    line, parse = LINES[name]
    whole = parse(line)
    for bit in range(8 * len(line)):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        assert read(parse, bytes(flipped)) in (None, whole)


def test_a_line_edited_by_hand_needs_no_checksum() -> None:
    line, parse = LINES["session"]
    edited = line.replace(b"8080", b"9090")
    bare, edited_bare = (text[: text.rindex(b',"sum"')] + b"}" for text in (line, edited))

    assert read(parse, edited) is None
    assert is_intact(edited_bare)
    assert parse(edited_bare).parts[0].text == "keep the port at 9090"
    assert seal(bare) == line
    assert parse(bare) == parse(line)


def test_a_text_that_looks_like_a_checksum_is_none() -> None:
    text = 'look: ,"sum":"00000000"}'
    assert entries.parse_line(line_of(text)).parts[0].text == text


def test_no_flipped_bit_of_an_object_changes_its_content() -> None:
    value = {"version": 1, "allow": ["shell(make:*)"], "more": {"größe": 1.5}}
    data = json.dumps(seal_object(value), indent=2).encode()
    assert unseal_object(json.loads(data)) == unseal_object(value) == value
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(ValueError, AttributeError):
            read = unseal_object(json.loads(flipped))
            # A member that is no longer called `sum` is one that no reader asks for.
            assert {key: read[key] for key in value} == value
