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
from kode.memory.precedence import brings_newer
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
            for text in _kept(change):
                if doubt is not None:
                    yield f"{doubt.mark}{_quoted(text)}"
                    continue
                fate = self._fate(change.target, text)
                if fate:
                    yield f"{_quoted(text)} {fate}"

    def _fate(self, target: str, text: str) -> str:
        """What became of a text, in words; "" while it may still hold. One that was removed may:
        others needed the room."""
        standing = self._standing(target)
        now = text
        for _ in range(MOST_FOLLOWED):
            then = "" if now in standing else self._next(target, now)
            if not then:
                break
            now = then
        if covers(now, text):
            return ""
        return f"superseded by {_quoted(now)}" if now in standing else "no longer holds"

    def _next(self, target: str, text: str) -> str:
        """What the last change that took a text away left in its place; "" for nothing."""
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
    """The texts that were first written by a change."""
    newer = change.before[-1:] if brings_newer(change) else ()
    return [text for text in change.after if text not in change.before or text in newer]


def _quoted(text: str) -> str:
    return f'"{shorten(text, QUOTED_CHARS)}"'
