"""The facts as files of the memory tool, one line per entry; episodes beside them, read-only."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kode.memory import entry_lines
from kode.memory.base import Outcome
from kode.memory.entry_lines import Row, Step
from kode.memory.folder import Folder, MemoryFile, of_entries
from kode.memory.tiered import report
from kode.memory.tiered.by_hand import FactMemory
from kode.memory.tiered.episode_files import Episode
from kode.memory.tiered.facts import FactFile, Scope, Target

NAMES: Mapping[tuple[Target, Scope], tuple[str, str]] = {
    ("user", "global"): ("user.md", "who the user is, what they prefer"),
    ("env", "global"): ("env.md", "machine and tools, in every project"),
    ("user", "project"): ("project/user.md", "what the user prefers in this project only"),
    ("env", "project"): ("project/env.md", "conventions and architecture of this project"),
}
ARCHIVED = "archived facts, in no prompt"
NOTICE = (
    "Each `- ` line of the files below is one fact, read alone and in every prompt: keep them "
    "short, without headings. The rest is written by kode."
)


def tiered_folder(
    system: FactMemory, episodes: Callable[[], Awaitable[Sequence[Episode]]]
) -> Folder:
    async def files() -> list[MemoryFile]:
        read = system.files()
        marked = system.marked(read, {entry for file in read for entry in file.entries})
        archives = (
            MemoryFile(name=f"archive/{_name(file)}", text=text, about=ARCHIVED)
            for file in marked
            if (text := entry_lines.render(_rows(file, archived=True)))
        )
        noted = (
            MemoryFile(name=f"episodes/{one.session_id}.md", text=report.episode(one))
            for one in await episodes()
        )
        return [*(_facts(system, file) for file in marked), *archives, *noted]

    return Folder(system=system, notice=NOTICE, files=files)


def _facts(system: FactMemory, file: FactFile) -> MemoryFile:
    target, scope = file.target, file.scope

    async def do(step: Step) -> Outcome:
        writer, author = system.writer, system.author()
        if step.key is None:
            return await writer.add(target, scope, step.text or "", author)
        if step.text is None:
            return await writer.remove(target, scope, step.key, author)
        return await writer.replace(target, scope, step.key, step.text, author)

    name, about = NAMES[target, scope]
    return of_entries(name, _rows(file, archived=False), do, f"{about} ({file.fill})")


def _name(file: FactFile) -> str:
    return NAMES[file.target, file.scope][0]


def _rows(file: FactFile, *, archived: bool) -> list[Row]:
    """The entries as a model sees them: without expired ones."""
    entries = file.in_archive if archived else file.standing
    known = ((entry, file.doubts.get(entry)) for entry in entries)
    return [
        Row(key=entry, text=entry, mark=doubt.mark if doubt else "")
        for entry, doubt in known
        if doubt is None or not doubt.expired
    ]
