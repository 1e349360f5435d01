"""Notes as files of the memory tool, a line a note: the soul, rules, notes, those of this project;
summaries to be read.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kode.errors import MemoryRefused
from kode.memory import entry_lines
from kode.memory.base import Outcome
from kode.memory.entry_lines import Row, Step
from kode.memory.folder import Folder, MemoryFile, of_entries
from kode.memory.notes.note import Kind
from kode.memory.notes.store import Wanted

if TYPE_CHECKING:
    from kode.memory.notes.opened import OpenedNotes

MOST = 500
"""Notes of one file, the newest; the others are not in it, so that no edit of it touches them."""
SOUL = "soul.md"
ABOUT_SOUL = "who you are for this user, all of it; only at their wish"
FILES: Mapping[str, tuple[Kind, bool, str]] = {
    "rules.md": ("rule", False, "what always holds; in every prompt"),
    "notes.md": ("log", False, "decisions, preferences, how things work"),
    "project.md": ("log", True, "the same of this project only"),
}
"""Name → the kind of its notes, whether they are of this project, what belongs in it."""
NOTICE = (
    f"Each `- ` line of the files below is one note, read alone, without headings; but {SOUL} is "
    "one text."
)


def notes_folder(system: "OpenedNotes") -> Folder:
    async def files() -> list[MemoryFile]:
        summaries = entry_lines.render(_rows(system, Wanted(kinds=("summary",), limit=MOST)))
        return [
            _soul(system),
            *(_notes(system, name) for name in FILES),
            MemoryFile(
                name="summaries.md", text=summaries, about="what was done in earlier sessions"
            ),
        ]

    return Folder(system=system, notice=NOTICE, files=files)


def _soul(system: "OpenedNotes") -> MemoryFile:
    async def write(after: str) -> Sequence[Outcome]:
        if not after.strip():
            raise MemoryRefused("The soul cannot be deleted, only changed.")
        done = await system.writer.update_soul(after.strip())
        await system.after_change()
        return [done]

    souls = system.store.get(Wanted(kinds=("soul",), limit=1))
    text = "".join(f"{note.content}\n" for note in souls)
    return MemoryFile(name=SOUL, text=text, about=ABOUT_SOUL, write=write)


def _notes(system: "OpenedNotes", name: str) -> MemoryFile:
    kind, in_project, about = FILES[name]

    async def do(step: Step) -> Outcome:
        if kind == "rule" and not system.asked:
            raise MemoryRefused("A rule needs the user's words. Put it into notes.md.")
        if step.key is None:
            evidence = (system.asked,) if kind == "rule" else ()
            done = await system.writer.remember(
                step.text or "", kind=kind, evidence=evidence, in_project=in_project
            )
        elif step.text is None:
            done = await system.writer.forget(step.key)
        else:
            done = await system.writer.update(step.key, step.text)
        await system.after_change()
        return done

    scope = system.store.project_scope if in_project else "user" if kind == "log" else None
    return of_entries(
        name, _rows(system, Wanted(kinds=(kind,), scope=scope, limit=MOST)), do, about
    )


def _rows(system: "OpenedNotes", wanted: Wanted) -> list[Row]:
    """Oldest first."""
    notes = ((note, system.doubts.get(("notes", note.id))) for note in system.store.get(wanted))
    rows = [
        Row(key=note.id, text=note.content, mark=doubt.mark if doubt else "")
        for note, doubt in notes
    ]
    return rows[::-1]
