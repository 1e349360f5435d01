"""What to say of statements beside their text: that one may be stale, has expired, contradicts
another, was withdrawn since a record was written, or is new to an open session.
"""

import re
from collections.abc import Mapping
from datetime import date
from functools import partial

from kode.memory.fold import EDIT, Entry, View, fold
from kode.memory.markdown import display
from kode.memory.statement import AUTHORS, Change, Statement
from kode.memory.store import Store, quoted
from kode.messages import shorten

MAX_NEWS_CHARS = 1_500  # about 400 tokens
NO_CHANGE = "none"
"""Stands for the last change of an empty log."""
MIN_QUOTED_WORDS = 4
"""A shorter text stands in many others that do not mean it."""
_FORGETTING = ("forget", "drop", "remove", "write", "learn", EDIT)
"""The kinds of changes by which somebody takes a fact back that nothing replaces."""
_TIDYING = ("prune", "consolidate", "merge")
"""The kinds of changes that take away what has had its time, not what does not hold."""
_LASTING = ("fact", "rule", "soul")
"""The kinds of statements of which an open session is told."""
WITHDRAWN = "was withdrawn"
_STATES = {"changed": "changed", "gone": "is gone"}
_quoted = partial(quoted, max_chars=200)  # a sentence


def visible_facts(store: Store, view: View, day: str) -> list[Statement]:
    """The facts of this project that a model may see on a day, in the order of a prompt."""
    facts = (fact for place in store.fact_places() for fact in view.current(place))
    return [fact for fact in facts if not fact.private and not _is_expired(fact, day)]


def _is_expired(fact: Statement, day: str) -> bool:
    return bool(fact.until) and fact.until < day


def remarks(store: Store, today: date) -> Mapping[str, str]:
    """The remark on each current fact of this project that needs one, by id: `expired on ...`, `may
    be stale: a.py:7 changed`, `not settled, the user says otherwise`."""
    remarks_by_id = dict[str, str]()
    for statement in store.statements():
        if _is_expired(statement, today.isoformat()):
            remarks_by_id[statement.id] = f"expired on {statement.until}"
        elif state := _STATES.get(store.code_state(statement) or ""):
            remarks_by_id[statement.id] = f"may be stale: {statement.source} {state}"
    for first, second in store.view().conflicts():
        author = "another entry" if first.who == second.who else AUTHORS[first.who]
        author = AUTHORS["user"] if first.quote else author
        remarks_by_id.setdefault(second.id, f"not settled, {author} says otherwise")
    return remarks_by_id


def show_record(store: Store, record: Statement, text: str, today: date) -> str:
    """A text of a record of past work without the withdrawn facts that it quotes whole. Below it
    stands what else does not hold any more: of the facts of its session that others changed, and of
    those that it quotes."""
    view, whole = store.view(), " ".join(record.text.split())
    doubts = remarks(store, today)
    lines = dict[str, None]()
    for entry in view.facts.values():
        fact, end = entry.statement, entry.end
        if fact.state == "waiting" or not fact.text:
            continue
        words = display(fact.text)
        is_quoted = words.count(" ") >= MIN_QUOTED_WORDS - 1 and words in whole
        is_of_session = bool(record.session) and fact.session == record.session
        if entry.is_alive and fact.id in doubts and (is_quoted or is_of_session):
            lines[f"- {_quoted(fact)}: {doubts[fact.id]}"] = None
        elif end and end.kind not in _TIDYING and (is_quoted or is_of_session):
            if any(display(other.text) == words for other in view.current()):
                continue
            fate, is_by_others = _fate(entry, view), end.session != record.session
            spaced = r"\s+".join(map(re.escape, words.split()))
            pattern = rf"(?<!\w){spaced}(?!\w)"
            is_forgotten = end.kind in _FORGETTING and not view.successors(fact.id)
            if is_quoted and is_forgotten and re.search(pattern, text):
                text = re.sub(pattern, f"(a fact that {WITHDRAWN})", text)
            elif is_quoted or (is_of_session and is_by_others):
                lines[f"- {_quoted(fact)} {fate}"] = None
    return "\n".join((text, "Since then:", *lines)) if lines else text


def _fate(entry: Entry, view: View) -> str:
    heirs = view.successors(entry.statement.id)
    while heirs and not heirs[-1].is_alive:
        heirs = view.successors(heirs[-1].statement.id)
    return f"was superseded by {_quoted(heirs[-1].statement)}" if heirs else WITHDRAWN


def news(store: Store, last_change: str, last_day: str, today: date, session: str) -> str:
    """What others changed of the current facts of this project since a session's model was told:
    after the change `last_change`, or because they expired since `last_day`. "" for nothing."""
    if last_change == (store.log.last_id() or NO_CHANGE) and last_day == today.isoformat():
        return ""
    changes, view = store.log.changes(), store.view()
    ids = [NO_CHANGE, *(change.id for change in changes)]
    position = ids.index(last_change) if last_change in ids else len(changes)
    before = fold(changes[:position]) if position < len(changes) else view
    old, new = (
        {fact.id: fact for fact in visible_facts(store, of, day) if fact.kind in _LASTING}
        for of, day in ((before, last_day), (view, today.isoformat()))
    )

    def is_own(change: Change | None) -> bool:
        """Whether this session's model made the change itself."""
        return change is not None and change.session == session and change.who == "model"

    entries, texts = view.entries, {statement.text for statement in new.values()}
    new_ids = [id for id in new if id not in old and not is_own(entries[id].change)]
    arrivals = [f"{_quoted(new[id])} ({AUTHORS[new[id].who]}, now)" for id in new_ids]
    old_ids = [id for id in old if not (id in new or (id in entries and is_own(entries[id].end)))]
    departures = [_quoted(old[id]) for id in old_ids if old[id].text not in texts]
    parts = [f"New: {', '.join(arrivals)}."] if arrivals else []
    parts += [f"No longer: {', '.join(departures)}."] if departures else []
    summary = shorten(" ".join(parts), MAX_NEWS_CHARS)
    return f"[Memory has changed. {summary}]" if summary else ""
