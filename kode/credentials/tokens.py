"""The token formats of providers, each recognized by its prefix: `tokens.json` is the table.

Of each row: `kind`, `prefixes`, and `body`, the pattern of what follows a prefix. `random`: the
prefix is common, so the body must look random to count. A prefix counts unless a letter or digit
precedes it; with `inside` it is the middle of a longer name, and anything may. With `compound` the
body has several parts, and `-` or `_` may not precede it either: a run of such characters is tried
once, not once for each time it has the prefix.

`shapes` searches the prefixes; it also handles tokens without one.
"""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from importlib import resources


@dataclass(frozen=True)
class Token:
    kind: str
    prefix: str
    """Searched with `str.find`; the body follows it."""
    body: str
    random: bool = False
    inside: bool = False
    compound: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.body)


def _table() -> tuple[Token, ...]:
    rows = json.loads(resources.files("kode.credentials").joinpath("tokens.json").read_bytes())
    return tuple(Token(prefix=prefix, **row) for row in rows for prefix in row.pop("prefixes"))


TOKENS = _table()

MIN_TOKEN_CHARS = 15
"""No token of the table, prefix and body together, is shorter."""

CONTINUES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
"""Characters before a prefix that make it a part of another word."""
