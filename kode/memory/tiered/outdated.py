"""Finds statements in an episode that no longer hold, to be shown beside it to a model.

An episode is never changed. But the facts that the session stored have a history: what superseded
them, which code they cite, how long they hold. That shows what became of them, however the episode
words it.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory import stale
from kode.memory.history import Change, History
from kode.memory.precedence import brings_newer
from kode.memory.tiered.consolidate import covers
from kode.memory.tiered.facts import TARGET_PATH, FactStore, shorten

HEAD = "Since then:"
MOST_FOLLOWED = 20
"""Limit of changes per entry; beyond it nothing is reported."""
QUOTED_CHARS = 200


class Outdated:
    """Checks the facts that a session stored."""

    def __init__(self, history: History, system: str, store: FactStore, project: Path) -> None:
        self._history = history
        self._system = system
        self._store = store
        self._project = project

    def note(self, session_id: str, today: date) -> str:
        """The facts of a session that no longer hold, one per line; "" if all do."""
        lines = list(dict.fromkeys(self._lines(session_id, today)))
        return "\n".join([HEAD, *(f"- {line}" for line in lines)]) if lines else ""

    def _lines(self, session_id: str, today: date) -> Iterator[str]:
        for change in self._history.of_session(self._system, session_id):
            is_said = change.who in ("model", "user") and change.kind != "consolidate"
            if not is_said or not TARGET_PATH.fullmatch(change.target):
                continue
            doubt = stale.doubt(change, self._project, today)
            for text in _kept(change):
                if doubt is not None:
                    yield f"{doubt.mark}{_quote(text)}"
                    continue
                fate = self._fate(change.target, text)
                if fate:
                    yield f"{_quote(text)} {fate}"

    def _fate(self, target: str, text: str) -> str:
        """What became of a text, in words; "" while it may still hold. A removed one may: others
        needed the space."""
        standing = self._standing(target)
        now = text
        for _ in range(MOST_FOLLOWED):
            then = "" if now in standing else self._next(target, now)
            if not then:
                break
            now = then
        if covers(now, text):
            return ""
        return f"superseded by {_quote(now)}" if now in standing else "no longer holds"

    def _next(self, target: str, text: str) -> str:
        """The replacement in the last change that removed a text; "" for none."""
        for change in self._history.naming(self._system, text):
            if change.target != target:
                continue
            if change.supersedes == text:
                return change.after[-1]
            if text in change.before and text not in change.after:
                is_one = change.kind != "consolidate"
                return next((new for new in change.after if is_one or covers(new, text)), "")
        return ""

    def _standing(self, target: str) -> tuple[str, ...]:
        try:
            return self._store.read_named(target).entries
        except MemoryRefused:
            return ()


def _kept(change: Change) -> list[str]:
    """The texts that a change wrote first."""
    newer = change.before[-1:] if brings_newer(change) else ()
    return [text for text in change.after if text not in change.before or text in newer]


def _quote(text: str) -> str:
    return f'"{shorten(text, QUOTED_CHARS)}"'
