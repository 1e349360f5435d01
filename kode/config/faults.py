"""What pydantic found wrong in a value, in plain words."""

import re
from collections.abc import Mapping, Sequence
from typing import Any


def must_be(faults: Sequence[Mapping[str, Any]]) -> str:
    """What pydantic allows in place of a value, in plain words: `a number`, `true or false`."""
    kinds = (re.sub("^Input should be |, unable to parse .*", "", fault["msg"]) for fault in faults)
    return " or ".join(_PLAIN_WORDS.get(kind, kind) for kind in kinds)


_PLAIN_WORDS = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a text",
    "String should have at least 1 character": "a text that is not empty",
    "a valid boolean": "true or false",
    "a valid array": "a list",
    "a valid tuple": "a list",
    "an object": "a section: {...}",
    "String should match pattern '^[a-zA-Z][a-zA-Z0-9_.-]{0,39}$'": (
        "a name: a letter, then letters, digits, `-`, `_` and `.`, at most 40"
    ),
}
