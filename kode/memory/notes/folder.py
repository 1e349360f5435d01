"""Notes as files of the memory tool, a line a note: the soul, rules, notes, those of this project;
summaries to be read.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.errors import MemoryRefused
from kode.memory import entry_lines, folder
from kode.memory.base import Outcome
from kode.memory.entry_lines import Row, Step
from kode.memory.folder import MemoryFile
from kode.memory.notes.note import Note
from kode.memory.notes.store import Wanted

if TYPE_CHECKING:
    from kode.memory.notes.opened import OpenedNotes

MOST = 500
"""Notes of one file, the newest; the others are not in it, so that no edit of it touches them."""
SOUL, RULES, EVERYWHERE, PROJECT, SUMMARIES = (
    "soul.md",
    "rules.md",
    "notes.md",
    "project.md",
    "summaries.md",
)
ABOUT = {
    SOUL: "who you are for this user, all of it; only at their wish",
    RULES: "what always holds; in every prompt",
    EVERYWHERE: "decisions, preferences, how things work",
    PROJECT: "the same of this project only",
    SUMMARIES: "what was done in earlier sessions",
}


class NotesFolder:
    notice = (
        f"Each `- ` line of the files below is one note, read alone, without headings; but {SOUL} "
        "is one text."
    )

    def __init__(self, system: "OpenedNotes") -> None:
        self._system = system
        self.seen = system.seen

    async def files(self) -> Sequence[MemoryFile]:
        return [
            MemoryFile(
                name=name,
                text=self._text(name),
                about=about,
                read_only=name == SUMMARIES,
            )
            for name, about in ABOUT.items()
        ]

    async def put(self, name: str, before: str, after: str) -> Sequence[Outcome]:
        """Raises: MemoryRefused, StorageError, BusyError; then nothing was changed."""
        if name == SUMMARIES:
            raise folder.read_only(name)
        if name not in ABOUT:
            raise folder.unknown(name, [SOUL, RULES, EVERYWHERE, PROJECT])
        done = await self._put(name, after)
        await self._system.after_change()
        return done

    async def _put(self, name: str, after: str) -> list[Outcome]:
        system = self._system
        if name == SOUL:
            if not after.strip():
                raise MemoryRefused("The soul cannot be deleted, only changed.")
            return [await system.writer.update_soul(after.strip())]
        asked = system.asked
        if name == RULES and not asked:
            raise MemoryRefused("A rule needs the user's words. Put it into notes.md.")

        async def do(step: Step) -> Outcome:
            if step.key is None:
                return await system.writer.remember(
                    step.text or "",
                    kind="rule" if name == RULES else "log",
                    evidence=(asked,) if name == RULES else (),
                    in_project=name == PROJECT,
                )
            if step.text is None:
                return await system.writer.forget(step.key)
            return await system.writer.update(step.key, step.text)

        steps = entry_lines.steps(self._rows(name), after)
        return await entry_lines.apply(steps, do, system)

    def _text(self, name: str) -> str:
        if name == SOUL:
            return "".join(f"{note.content}\n" for note in self._notes(name))
        return entry_lines.render(self._rows(name))

    def _rows(self, name: str) -> list[Row]:
        doubts = self._system.doubts
        known = ((note, doubts.get(("notes", note.id))) for note in self._notes(name))
        return [
            Row(key=note.id, text=note.content, mark=doubt.mark if doubt else "")
            for note, doubt in known
        ]

    def _notes(self, name: str) -> list[Note]:
        """Oldest first."""
        store = self._system.store
        match name:
            case "soul.md":
                wanted = Wanted(kinds=("soul",), limit=1)
            case "rules.md":
                wanted = Wanted(kinds=("rule",), limit=MOST)
            case "summaries.md":
                wanted = Wanted(kinds=("summary",), limit=MOST)
            case "project.md":
                wanted = Wanted(kinds=("log",), scope=store.project_scope, limit=MOST)
            case _:
                wanted = Wanted(kinds=("log",), scope="user", limit=MOST)
        return store.get(wanted)[::-1]
