"""A model that answers only from what it was shown, by one rule for all systems.

A statement counts unless memory marks it: may be stale, superseded, or past the day that it names.
What is shown as knowledge counts before what is shown as the note of a day; of dated notes the
newest counts. Of two undated statements that contradict each other it takes either, as by a coin:
nothing tells it which is the newer.
"""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.life.story import Fact

Key = tuple[str, str]

VALUE = re.compile(r"serial-\d+|\w+")
_UNTIL = re.compile(r"until (\d{4}-\d\d-\d\d)")
_DATED = re.compile(
    r"\[(?:session |episodes/)(\d{8}-\d{6})"  # an episode, by its session
    r"|(?:## |- )?\[?(\d{4}-\d\d-\d\d(?: \d\d:\d\d)?)"  # an entry of a log
    r"|\[summary\] \[(\d{4}-\d\d-\d\d)\]"  # a note on a session
)
_UNDATED = ("──", "<", "[", "§")
STALE = (
    "may be stale",
    "expired on",
    "not settled",
    "no longer holds",
    "was withdrawn",
    "no longer stands",
)
UNSURE = "not compared"
SUPERSEDED = "superseded by"
GONE = "No longer: "
"""Begins, in the news of an open session, what does not hold any more."""


PAGE = "The page says: "
"""Begins a statement from outside text: whoever sees it knows that nobody stands behind it."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    fact: Fact
    at: str
    """Digits of the day and hour that it is a note of; "" for what is shown as knowledge."""
    marked: bool = False
    """Whether memory says itself that it may not hold any more."""
    unsure: bool = False
    """Whether it says that nobody has compared it with what may say otherwise."""
    until: str = ""
    """The day that the text names as its last."""


def values(text: str) -> list[str]:
    return VALUE.findall(text)


def facts_in(text: str, facts: Mapping[str, Fact]) -> list[Fact]:
    """The facts that a text states, in its order."""
    return [facts[value] for value in VALUE.findall(text) if value in facts]


class Reader:
    """What one session was shown and has heard, and what follows from it."""

    def __init__(self, facts: Mapping[str, Fact], today: str) -> None:
        self._facts = facts
        self.today = today
        self.since = ""
        """Dated statements from before are out of sight."""
        self._seen: dict[Key, list[Seen]] = {}
        self._heard: dict[Key, Fact | None] = {}

    def begin(self) -> None:
        """Another session: of what was said only what memory gives is left."""
        self._heard.clear()

    def look(self, shown: str) -> None:
        """Takes in a text that memory gave."""
        at = ""
        for line in shown.split("\n"):
            head = _DATED.match(line)
            if head:
                at = re.sub(r"\D", "", next(filter(None, head.groups())))
            elif line.startswith(_UNDATED):
                at = ""
            if PAGE in line:
                continue
            days = _UNTIL.findall(line)
            before, superseded, after = line.partition(SUPERSEDED)
            old = set(values(before)) - set(values(after)) if superseded else set()
            old |= {*values(line.partition(GONE)[2])}
            for fact in facts_in(line, self._facts):
                seen = Seen(
                    fact=fact,
                    at=at,
                    marked=any(mark in line.casefold() for mark in STALE) or fact.value in old,
                    unsure=UNSURE in line.casefold(),
                    until=days[0] if days else "",
                )
                self._seen.setdefault(fact.key, []).append(seen)

    def hear(self, key: Key, fact: Fact | None) -> None:
        """What is said, or read in code, in this very session; None: it is to be forgotten."""
        self._heard[key] = fact

    def has_heard(self, keys: Iterable[Key]) -> bool:
        """Whether something was said about one of these in this session."""
        return not self._heard.keys().isdisjoint(keys)

    @property
    def untouched(self) -> list[Key]:
        """What memory showed something about, and the person said nothing about in this session."""
        return [key for key in self._seen if key not in self._heard]

    def shown(self, key: Key) -> list[Seen]:
        return [seen for seen in self._seen.get(key, []) if not seen.at or seen.at >= self.since]

    def answer(self, key: Key) -> Fact | None:
        """The fact that it takes for true; None: nothing that it was shown says."""
        if key in self._heard:
            return self._heard[key]
        shown = self.shown(key)
        marked = {seen.fact.value for seen in shown if seen.marked}
        marked |= {seen.fact.value for seen in shown if seen.until and seen.until < self.today}
        held = [seen for seen in shown if seen.fact.value not in marked]
        if not held:
            return None
        known = {seen.fact.value: seen.fact for seen in held if not seen.at}
        newest = max(reversed(held), key=lambda seen: seen.at)  # of one note what it says last
        return _choose(list(known.values())) if known else newest.fact


def _choose(facts: Sequence[Fact]) -> Fact:
    """Serial numbers say which is the newest; else a coin."""
    if facts[0].value.startswith("serial-"):
        return max(facts, key=lambda fact: int(fact.value.removeprefix("serial-")))
    coin = zlib.crc32(" ".join(sorted(fact.value for fact in facts)).encode())
    return sorted(facts, key=lambda fact: fact.value)[coin % len(facts)]
