"""What an episode says that no longer holds: put beside it wherever a model is shown it.

An episode stays as it was written, the note of a day. But what the session kept as facts has a
history: what superseded it, which code it rests on, how long it holds. That says what has become of
it, in whatever words the episode puts it.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory import stale
from kode.memory.history import Change, History
from kode.memory.tiered.consolidate import covers
from kode.memory.tiered.facts import TARGET_PATH, FactStore, shorten

HEAD = "Since then:"
MOST_FOLLOWED = 20
"""Changes of one entry; of what was changed more often, nothing is said."""
QUOTED_CHARS = 200


class Outdated:
    """Looks at the facts that a session kept."""

    def __init__(self, history: History, system: str, store: FactStore, project: Path) -> None:
        self._history = history
        self._system = system
        self._store = store
        self._project = project

    def note(self, session_id: str, today: date) -> str:
        """What of the facts of a session no longer holds, a line each; "" where all do."""
        lines = list(dict.fromkeys(self._lines(session_id, today)))
        return "\n".join([HEAD, *(f"- {line}" for line in lines)]) if lines else ""

    def _lines(self, session_id: str, today: date) -> Iterator[str]:
        for change in self._history.of_session(self._system, session_id):
            is_said = change.who in ("model", "user") and change.kind != "consolidate"
            if not is_said or not TARGET_PATH.fullmatch(change.target):
                continue
            doubt = stale.doubt(change, self._project, today)
            for text in set(change.after) - set(change.before):
                if doubt is not None:
                    yield f"{doubt.mark}{_quoted(text)}"
                    continue
                now = self._now(change, text)
                if now and not covers(now, text):
                    yield f"{_quoted(text)} superseded by {_quoted(now)}"

    def _now(self, change: Change, text: str) -> str:
        """What stands in the place of a text; "" where it was removed, since that may have been to
        make room for others."""
        standing = self._standing(change.target)
        for _ in range(MOST_FOLLOWED):
            if text in standing:
                return text
            text = self._next(change.target, text)
            if not text:
                break
        return ""

    def _next(self, target: str, text: str) -> str:
        """What the last change that took a text away left in its place; "" for nothing."""
        for change in self._history.naming(self._system, text):
            if change.target == target and text in change.before and text not in change.after:
                fresh = [
                    new for new in change.after if change.kind != "consolidate" or covers(new, text)
                ]
                return fresh[0] if fresh else ""
        return ""

    def _standing(self, target: str) -> tuple[str, ...]:
        try:
            return self._store.read_named(target).entries
        except MemoryRefused:
            return ()


def _quoted(text: str) -> str:
    return f'"{shorten(text, QUOTED_CHARS)}"'
