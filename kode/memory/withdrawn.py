"""Says which statements in a text that is about to be shown hold no longer: withdrawn, superseded,
in dispute, or doubtful.

A record of past work is never changed. But what was said in its session, and what it quotes, has a
past in the ledger, which shows what became of it, however the record words it.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from typing import TYPE_CHECKING

from kode import credentials
from kode.memory import stale
from kode.memory.ledger import Statement, brings_newer
from kode.messages import shorten

if TYPE_CHECKING:
    from kode.memory.base import BaseMemory

HEAD = "Since then:"
QUOTED_CHARS = 200
MIN_WORDS = 3
"""A statement of fewer words is found only by the session it was made in."""
_WORD = re.compile(r"[^\W_]+(?:[./:@'’_-]+[^\W_]+)*")


def since_then(system: "BaseMemory", text: str, today: date, *, session: str | None = None) -> str:
    """What no longer holds of a text, a heading and a line each; "" if all does. It concerns the
    facts that the text quotes, and those stored in `session`, which the text is a record of."""
    lines = list(dict.fromkeys(_lines(system, text, today, session or "")))
    return "\n".join([HEAD, *(f"- {line}" for line in lines)]) if lines else ""


def noted(text: str, note: str) -> str:
    """A text with its note."""
    return f"{text}\n{note}" if note else text


def words_of(text: str) -> str:
    """The words of a text between spaces, as they are compared."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _lines(system: "BaseMemory", text: str, today: date, session: str) -> Iterator[str]:
    statements, standing = system.ledger.statements(), system.ledger.standing()
    if not statements:
        return
    shown, facts = words_of(text), system.is_fact
    holds = {words_of(one.text) for one in standing.values() if facts(one.entry)}
    disputed = (
        {one.second.place for one in system.ledger.disputes() if one.contradict} if shown else set()
    )
    for one in statements:
        if not facts(one.entry) or not (_is_of(one, session) or _is_in(one, shown)):
            continue
        doubt = stale.doubt(one.terms, system.project, today) if one.terms else None
        if doubt is not None:
            yield f"{doubt.mark}{_quote(one)}"
        elif one.ended is not None and words_of(one.text) not in holds:
            yield from (f"{_quote(one)} {fate}" for fate in _fate(one))
        elif one.ended is None and one.place in disputed:
            yield f"{_quote(one)} is not settled: another fact says otherwise"


def _is_of(one: Statement, session: str) -> bool:
    """Whether it was said in a session; a consolidation says nothing new."""
    change = one.change
    if change is None or not session or change.session != session:
        return False
    said = change.who in ("model", "user") and change.kind != "consolidate"
    was_there = any(part.place == one.place for part in one.made_of)
    return said and (not was_there or brings_newer(change))


def _is_in(one: Statement, shown: str) -> bool:
    words = words_of(one.text)
    return words.count(" ") > MIN_WORDS and words in shown


def _fate(one: Statement) -> Iterable[str]:
    """What became of a statement that ended, in words; nothing while what it said may still
    hold."""
    now, is_other = one, False
    while now.ended is not None:
        if not now.into:
            return ("was withdrawn" if now is one else "no longer holds",)
        if now.ended.kind == "consolidate":  # it says the same in fewer words
            if any(new.now is not None for new in now.into):
                return ()
        elif now.into[1:]:
            return ("no longer holds",)
        is_other = is_other or now.ended.kind not in ("merge", "consolidate")
        now = now.into[-1]
    if not is_other or words_of(one.text) in words_of(now.text):
        return ()
    return (f"superseded by {_quote(now)}",)


def _quote(one: Statement) -> str:
    return f'"{shorten(credentials.redact(one.text), QUOTED_CHARS)}"'
