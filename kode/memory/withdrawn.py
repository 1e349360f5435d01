"""Says which statements in a text that is about to be shown hold no longer: withdrawn, superseded,
in dispute, or doubtful.

A record of past work is never changed. But what was said in its session, and what it quotes, has a
past in the ledger, which shows what became of it, however the record words it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from kode import credentials
from kode.memory import stale
from kode.memory.ledger import Dispute, Ledger, Statement, brings_newer, words_of
from kode.memory.lineage import Place
from kode.messages import shorten

HEAD = "Since then:"
QUOTED_CHARS = 200
NOT_SETTLED = "is not settled: another fact says otherwise"
NOT_COMPARED = "was not compared with a similar fact, which may say otherwise"
MIN_WORDS = 3
"""A statement of fewer words is found only by the session it was made in."""
_SAY_THE_SAME = ("merge", "consolidate")
_TIDY_UP = ("prune", "job")
"""Kinds that take away what has had its time, not what does not hold."""


def since_then(ledger: Ledger, text: str, project: Path, today: date, *, session: str = "") -> str:
    """What no longer holds of a text, a heading and a line each; "" if all does. It concerns the
    facts that the text quotes, and those made in its session: `session`, or the ones in which its
    records were made. Paths of code are relative to `project`."""
    statements = ledger.statements()
    if not statements:
        return ""
    shown = words_of(text)
    open_ = _open(ledger.disputes(), project)
    # Of most facts there is nothing to say, whatever the text is.
    facts = [
        one
        for one in statements
        if one.entry.is_fact and (one.ended or one.terms or one.place in open_)
    ]
    records = () if session or not facts else (one for one in statements if not one.entry.is_fact)
    made_in = {session, *(_session(one) for one in records if one.words in shown)} - {""}
    concerned = [one for one in facts if _is_of(one, made_in) or _is_in(one, shown)]
    standing = ledger.standing().values() if concerned else ()
    holding = {one.words for one in standing if one.entry.is_fact}
    lines = (
        line
        for one in concerned
        for line in _lines(one, stale.doubt(one.terms, project, today), holding, open_)
    )
    listed = "\n".join(f"- {line}" for line in dict.fromkeys(lines))
    return f"{HEAD}\n{listed}" if listed else ""


def unsettled(ledger: Ledger, project: Path) -> dict[Place, str]:
    """What to say of each entry that nobody has decided about, with the day it was said; of the one
    that counts meanwhile the day alone."""
    disputes = ledger.disputes()
    why = _open(disputes, project)
    sides = {one.place: one for pair in disputes for one in (pair.first, pair.second)}
    days = {place: f"said {one.change.at[:10]}" for place, one in sides.items() if one.change}
    found = {place: [days[place]] if place in days else [] for place in sides}
    for place, reason in why.items():
        found[place].append(f"this {reason}")
    return {place: "; ".join(said) for place, said in found.items() if said}


def _lines(
    one: Statement, doubt: stale.Doubt | None, holding: Collection[str], open_: Mapping[Place, str]
) -> Iterator[str]:
    if doubt is not None:
        yield f"{doubt.mark}{_quote(one)}"
    elif one.ended is None and one.place in open_:
        said = f" (said {one.change.at[:10]})" if one.change else ""
        yield f"{_quote(one)}{said} {open_[one.place]}"
    elif one.ended is not None and one.words not in holding:
        now = one.now
        doubt_of_it = (
            f", which {open_[now.place]}" if now is not None and now.place in open_ else ""
        )
        yield from (f"{_quote(one)} {fate}{doubt_of_it}" for fate in _fate(one))


def _open(disputes: Sequence[Dispute], project: Path) -> Mapping[Place, str]:
    """What nobody has decided about → why, in words. Of two that contradict each other the first
    counts: it ranks higher, or as high and is newer."""
    found: dict[Place, str] = {}
    for one in disputes:
        if not one.contradict:
            found |= dict.fromkeys(one.places, NOT_COMPARED)
    for one in disputes:
        if one.contradict:
            found[one.second.place] = NOT_SETTLED
    return found


def _session(one: Statement) -> str:
    return (one.change.session if one.change else None) or ""


def _is_of(one: Statement, sessions: Collection[str]) -> bool:
    """Whether it was said in one of these sessions; shortening facts says nothing new."""
    change = one.change
    if change is None or change.session not in sessions or change.who in ("import", "merge"):
        return False
    is_shortened = change.kind == "consolidate" and change.who in ("model", "user")
    was_there = any(part.place == one.place for part in one.made_of)
    return not is_shortened and (not was_there or brings_newer(change))


def _is_in(one: Statement, shown: str) -> bool:
    return one.words.count(" ") > MIN_WORDS and one.words in shown


def _fate(one: Statement) -> Iterable[str]:
    """What became of a statement that ended, in words; nothing while what it said may still
    hold."""
    now, is_other = one, False
    while now.ended is not None:
        if now.ended.kind in _TIDY_UP:
            return ()
        if not now.into:
            return ("was withdrawn" if now is one else "no longer holds",)
        says_the_same = now.ended.kind in _SAY_THE_SAME
        if says_the_same and any(new.now is not None for new in now.into):
            return ("no longer holds",) if is_other else ()
        if now.into[1:]:
            return ("no longer stands as it was said",)
        is_other = is_other or not says_the_same
        now = now.into[-1]
    if not is_other or one.words in now.words:
        return ()
    return (f"superseded by {_quote(now)}" if now.entry.is_fact else "no longer holds",)


def _quote(one: Statement) -> str:
    text = one.text.removeprefix("- ")  # of a list: how it is laid out says nothing
    return f'"{shorten(credentials.redact(text), QUOTED_CHARS)}"'
