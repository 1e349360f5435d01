"""Lines of JSON that tell when they have been damaged: the last member of each object, `sum`, is
the CRC-32 of the line without it (the checksum of zip and Ethernet: eight digits find every flip of
up to three bits and all but one in 4 billion of other damage).

It finds what a disk or a copy has changed, not what a person has: whoever edits a line by hand
leaves the member out. A file that is one object has its `sum` over all its members, however they
are laid out.
"""

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"}\s*$')
"""Unescaped quotes: no string inside the object can look like it."""


def seal(line: bytes) -> bytes:
    """A line, one JSON object with at least one member, with its checksum."""
    return b'%s,"sum":"%08x"}' % (line[:-1], zlib.crc32(line))


def is_intact(line: bytes) -> bool:
    """Whether a line is as it was sealed. One without a checksum, written by hand,
    counts as intact."""
    match = _SUM.search(line)
    return match is None or zlib.crc32(line[: match.start()] + b"}") == int(match[1], 16)


def sealed_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """An object that becomes a file, with its checksum."""
    return {**value, "sum": _sum_of(value)}


def opened(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its checksum, where it has one. Raises: ValueError for one that is not as
    it was sealed."""
    content = {key: item for key, item in value.items() if key != "sum"}
    if "sum" in value and value["sum"] != _sum_of(content):
        raise ValueError("its checksum does not fit")
    return content


def _sum_of(value: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(value, sort_keys=True).encode()):08x}"
