"""What to say of statements beside their text: that one may be stale, has expired, contradicts
another, was withdrawn since a record was written, or is new to an open session.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import partial

from kode.memory.fold import Entry, View, fold
from kode.memory.markdown import display
from kode.memory.statement import AUTHORS, Change, Statement
from kode.memory.store import Store, quoted
from kode.messages import shorten

QUOTED_CHARS = 200  # a sentence
MAX_NEWS_CHARS = 1_500  # about 400 tokens
NO_CHANGE = "none"
"""Stands for the last change of an empty log."""
MIN_QUOTED_WORDS = 4
"""A shorter text stands in many others that do not mean it."""
_TIDYING = ("prune", "consolidate", "merge")
"""The kinds of changes that take away what has had its time, not what does not hold."""
_quoted = partial(quoted, max_chars=QUOTED_CHARS)


def is_expired(statement: Statement, today: date) -> bool:
    return bool(statement.until) and statement.until < today.isoformat()


def remarks(store: Store, today: date) -> Mapping[str, str]:
    """The remark on each current fact of this project that needs one, by id: `expired on ...`, `may
    be stale: a.py:7 changed`, `not settled, the user says otherwise`."""
    view, remarks_by_id = store.view(), dict[str, str]()
    for statement in store.statements():
        state = store.code_state(statement)
        if is_expired(statement, today):
            remarks_by_id[statement.id] = f"expired on {statement.until}"
        elif state in ("changed", "gone"):
            remarks_by_id[statement.id] = f"may be stale: {statement.source} {_STATES[state]}"
    for first, second in view.conflicts():
        author = "the user" if first.quote else AUTHORS[first.who]
        if not first.quote and first.who == second.who:
            author = "another entry"
        remarks_by_id.setdefault(second.id, f"not settled, {author} says otherwise")
    return remarks_by_id


_STATES = {"changed": "changed", "gone": "is gone"}


def since_then(store: Store, record: Statement, today: date) -> str:
    """What does not hold any more of a record of past work: of the facts of its session that others
    changed, and of the facts that it quotes whole. A heading and a line each; "" if all holds."""
    view, text = store.view(), " ".join(record.text.split())
    doubts = remarks(store, today)
    lines = dict[str, None]()
    for entry in view.entries.values():
        fact = entry.statement
        if fact.kind not in ("fact", "rule", "log") or fact.state == "waiting" or not fact.text:
            continue
        is_quoted = fact.text.count(" ") >= MIN_QUOTED_WORDS - 1 and display(fact.text) in text
        is_of_session = bool(record.session) and fact.session == record.session
        if not is_quoted and not is_of_session:
            continue
        if entry.is_alive and fact.id in doubts:
            lines[f"- {_quoted(fact)}: {doubts[fact.id]}"] = None
        elif entry.end and entry.end.kind not in _TIDYING:
            is_by_others = entry.end.session != record.session or not record.session
            if (is_quoted or is_by_others) and not _is_stated(fact, view):
                lines[f"- {_quoted(fact)} {_fate(entry, view)}"] = None
    return "\n".join(("Since then:", *lines)) if lines else ""


def _is_stated(fact: Statement, view: View) -> bool:
    """Whether another current statement has the text of one that ended."""
    return any(display(other.text) == display(fact.text) for other in view.current())


def _fate(entry: Entry, view: View) -> str:
    heirs = view.successors(entry.statement.id)
    while heirs and not heirs[-1].is_alive:
        heirs = view.successors(heirs[-1].statement.id)
    return f"was superseded by {_quoted(heirs[-1].statement)}" if heirs else "was withdrawn"


def news(store: Store, last_change: str, last_day: str, today: date, session: str) -> str:
    """What others changed of the current facts of this project since a session's model was told:
    after the change `last_change`, or because they expired since `last_day`. "" for nothing."""
    changes, view = store.log.changes(), store.view()
    ids = [change.id for change in changes]
    position = ids.index(last_change) + 1 if last_change in ids else len(ids)
    position = 0 if last_change == NO_CHANGE else position
    if position == len(ids) and last_day == today.isoformat():
        return ""
    before = fold(changes[:position]) if position < len(ids) else view
    old = _facts(before, store.is_here, last_day)
    new = _facts(view, store.is_here, today.isoformat())

    def is_own(change: Change | None) -> bool:
        """Whether this session's model made the change itself."""
        return change is not None and change.session == session and change.who == "model"

    added = [
        statement
        for statement in new.values()
        if statement.id not in old and not is_own(view.entries[statement.id].change)
    ]
    texts = {statement.text for statement in new.values()}
    gone = [
        statement
        for id, statement in old.items()
        if id not in new and statement.text not in texts
        if not ((entry := view.entries.get(id)) and is_own(entry.end))
    ]
    parts = _listed("New", (f"{_quoted(fact)} ({AUTHORS[fact.who]}, now)" for fact in added))
    parts += _listed("No longer", (_quoted(fact) for fact in gone))
    summary = " ".join(parts)
    return f"[Memory has changed. {shorten(summary, MAX_NEWS_CHARS)}]" if summary else ""


def _facts(view: View, is_here: Callable[[str], bool], day: str) -> dict[str, Statement]:
    """What a model may know of the facts of a project on a day, by id."""
    return {
        statement.id: statement
        for statement in view.current()
        if statement.kind in ("fact", "rule", "soul")
        and not statement.private
        and is_here(statement.place)
        and not (statement.until and statement.until < day)
    }


def _listed(word: str, texts: Iterable[str]) -> list[str]:
    listed = ", ".join(texts)
    return [f"{word}: {listed}."] if listed else []
