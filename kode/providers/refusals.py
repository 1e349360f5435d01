"""Vendors' words → what is wrong with a request: the key, the model, the size, or one part of it.

`refusals.toml` has the words of the vendors' own servers and of those that imitate them. The table
is read after the first refusal: a start without one does not wait for it.
"""

import functools
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources

from kode.provider import Api

UNBOUND = ("signatures", "thoughts")
"""What a server wants back with the replies in a conversation."""


@dataclass(frozen=True, kw_only=True)
class RefusalRule:
    """How servers word one thing."""

    means: str
    """`overflow` (the request is larger than the window), `no_credit`, `bad_key`, `loading`,
    `no_model`, `no_route`, `retry`, `bound_thinking` (a server does not take back the thinking it
    sent), or the refused part of a request, a key of `RefusalTable.parts`."""
    patterns: tuple[str, ...]
    statuses: Collection[int | str]
    """With which servers report it; "stream": in the middle of an answer, "5xx": from 500 on."""
    api: Api = ""
    """The only format that has it; "" for all."""

    def fits(self, status: int | None, words: str) -> bool:
        key = "stream" if status is None else status
        is_fault = status is not None and status >= 500 and "5xx" in self.statuses
        return (is_fault or key in self.statuses) and self.search(words) is not None

    def search(self, words: str) -> re.Match[str] | None:
        """Where the words are about it, whatever the status."""
        flags = re.IGNORECASE | re.DOTALL
        return next(filter(None, (re.search(p, words, flags) for p in self.patterns)), None)


@dataclass(frozen=True, kw_only=True)
class RequestPart:
    """A part of a request that a model or server may not take."""

    what: str = ""
    """It, for a person."""
    change: str = ""
    """What to change, with the setting's name."""
    then: str = ""
    """What kode does without it; "" where leaving it out does not help."""


@dataclass(frozen=True, kw_only=True)
class RefusalTable:
    """The content of `refusals.toml`."""

    status_of_type: Mapping[str, int]
    """The status for a word in an error object that has no number."""
    parts: Mapping[str, RequestPart]
    rules: tuple[RefusalRule, ...]


@functools.cache
def read_table() -> RefusalTable:
    text = resources.files("kode.providers").joinpath("refusals.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return RefusalTable(
        status_of_type=table["status_of_type"],
        parts={name: RequestPart(**part) for name, part in table["part"].items()},
        rules=tuple(
            RefusalRule(**{**row, "patterns": tuple(row["patterns"])}) for row in table["rule"]
        ),
    )


def find_rule(status: int | None, words: str, api: Api = "") -> RefusalRule | None:
    """The first rule that fits an answer with this status; None for nothing that is known."""
    rules = (rule for rule in read_table().rules if rule.api in ("", api))
    return next((rule for rule in rules if rule.fits(status, words)), None)


def names_fault(words: str, means: str) -> bool:
    """Whether words mean a fault, whatever the status."""
    return any(rule.means == means and rule.search(words) for rule in read_table().rules)
