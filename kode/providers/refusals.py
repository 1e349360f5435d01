"""Vendors' words → what is wrong with a request: the key, the model, the size, or one part of it to
leave out or to change.

`refusals.toml` has the words of the vendors' own servers and of those that imitate them, which
stand in `faults.jsonl` and `refusals.jsonl` of `tests/providers/data`. A new one is a pattern there
and a line there. The table is read after the first refusal: a start without one does not wait for
it.
"""

import functools
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from kode.errors import RefusedError, ThinkingRefused
from kode.provider import Api

Fault = Literal["overflow", "no_credit", "bad_key", "loading", "thinking", "no_model"]
"""`overflow`: the request is larger than the window. `thinking`: a server does not take back the
thinking it sent."""

MISSING = ("signatures", "thoughts")
"""What a server wants back with the replies in a conversation."""

ANOTHER_MODEL = "If it happens again, use another model with /model"


@dataclass(frozen=True, kw_only=True)
class RefusalRule:
    """How servers word one thing."""

    name: str
    """A `Fault`, or what of a request is refused."""
    patterns: tuple[str, ...]
    statuses: Collection[int | str] = ()
    """With which they report it; "stream": in the middle of an answer, "5xx": from 500 on. Without
    any, those with which servers refuse a part of a request."""
    api: str = ""
    """The only format that has it; "" for all."""
    what: str = ""
    """A part of a request, for a person."""
    change: str = ""
    """What to change, with the setting's name."""

    def fits(self, status: int | None, words: str) -> bool:
        key = "stream" if status is None else status
        is_fault = status is not None and status >= 500 and "5xx" in self.statuses
        return (is_fault or key in self.statuses) and self.matches(words)

    def matches(self, words: str) -> bool:
        """Whether the words are about it, whatever the status."""
        pattern = "|".join(self.patterns)
        return re.search(pattern, words, re.IGNORECASE | re.DOTALL) is not None


@dataclass(frozen=True, kw_only=True)
class RefusalTable:
    """The content of `refusals.toml`."""

    statuses: tuple[int, ...]
    """With which servers refuse a part of a request."""
    not_taken_back: RefusalRule
    """A server does not take back the thinking that it sent."""
    status_of_type: Mapping[str, int]
    """The status for a word in an error object that has no number."""
    faults: tuple[RefusalRule, ...]
    settings: Mapping[str, RefusalRule]
    """What a model or server may not take of a request. The first that fits counts: a refusal of a
    way of thinking may name the level of effort as the better one."""
    of_format: tuple[RefusalRule, ...]
    """What only one format has, or the same in other words. They come before `settings`."""
    then: Mapping[str, str]
    """What can be left out of a request → what a person is told after the refusal, which names the
    setting."""


@functools.cache
def read_table() -> RefusalTable:
    text = resources.files("kode.providers").joinpath("refusals.toml").read_text("utf-8")
    table = tomllib.loads(text)
    settings = map(_rule_of, table["setting"])
    return RefusalTable(
        statuses=tuple(table["statuses"]),
        not_taken_back=RefusalRule(name="thinking", patterns=tuple(table["not_taken_back"])),
        status_of_type=table["status_of_type"],
        faults=tuple(map(_rule_of, table["fault"])),
        settings={rule.name: rule for rule in settings},
        of_format=tuple(map(_rule_of, table["format"])),
        then=table["then"],
    )


def _rule_of(row: Mapping[str, Any]) -> RefusalRule:
    return RefusalRule(**{**row, "patterns": tuple(row["patterns"])})


def fault_of(status: int | None, words: str) -> str:
    """The `Fault` that the words of an answer with this status mean; "" for nothing that is
    known."""
    return next((rule.name for rule in read_table().faults if rule.fits(status, words)), "")


def names_fault(words: str, fault: Fault) -> bool:
    """Whether words name a fault, whatever the status."""
    return any(rule.name == fault and rule.matches(words) for rule in read_table().faults)


def refused_setting(words: str) -> str:
    """The key of `RefusalTable.settings` for what a server refused; "" for something else."""
    rules = read_table().settings.values()
    return next((rule.name for rule in rules if rule.matches(words)), "")


def refused_tool(refused: RefusedError, names: Sequence[str]) -> str:
    """The tool of a request, of all in order, whose schema a refusal is about; "" for none."""
    is_about_tools = re.search("schema|parameters|declarations", refused.said, re.IGNORECASE)
    if refused.status not in read_table().statuses or not is_about_tools:
        return ""
    quoted = re.findall(r"['`\"]([\w-]+)['`\"]", refused.said)
    if named := next((name for name in quoted if name in names), ""):
        return named
    places = (r"function_declarations\[(\d+)", r"tools[.\[](\d+)")
    place = next(filter(None, (re.search(place, refused.said) for place in places)), None)
    return names[int(place[1])] if place and int(place[1]) < len(names) else ""


def setting_to_leave_out(api: Api, refused: RefusedError) -> str:
    """The key of `RefusalTable.then` for what a refusal is about; "" where leaving something out
    does not help."""
    if isinstance(refused, ThinkingRefused):
        return refused.part if api == "chat" else ""
    table = read_table()
    rules = [rule for rule in table.of_format if rule.api == api]
    statuses = rules[0].statuses if rules else table.statuses
    status = "stream" if refused.status is None else refused.status
    if status not in statuses or refused.part == "api":  # that a person has to change
        return ""
    return next((rule.name for rule in rules if rule.matches(refused.said)), refused.part)
