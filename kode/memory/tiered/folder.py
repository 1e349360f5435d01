"""The facts as files of the memory tool, one line per entry; episodes beside them, read-only."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kode.memory import entry_lines, folder
from kode.memory.base import Outcome
from kode.memory.entry_lines import Row, Step
from kode.memory.folder import MemoryFile
from kode.memory.tiered import report
from kode.memory.tiered.by_hand import FactMemory
from kode.memory.tiered.episode_files import Episode
from kode.memory.tiered.facts import FactFile, Scope, Target, check_text

NAMES: Mapping[str, tuple[Target, Scope, str]] = {
    "user.md": ("user", "global", "who the user is, what they prefer"),
    "env.md": ("env", "global", "machine and tools, in every project"),
    "project/user.md": ("user", "project", "what the user prefers in this project only"),
    "project/env.md": ("env", "project", "conventions and architecture of this project"),
}
ARCHIVED = "archived facts, in no prompt"


class TieredFolder:
    notice = (
        "Each `- ` line of the files below is one fact, read alone and in every prompt: keep them "
        "short, without headings. The rest is written by kode."
    )

    def __init__(
        self, system: FactMemory, episodes: Callable[[], Awaitable[Sequence[Episode]]]
    ) -> None:
        self._system = system
        self._episodes = episodes
        self.seen = system.seen

    async def files(self) -> Sequence[MemoryFile]:
        layers = self._layers()
        found = [
            MemoryFile(
                name=name,
                text=entry_lines.render(_rows(layers[target, scope], archived=False)),
                about=f"{about} ({layers[target, scope].fill})",
            )
            for name, (target, scope, about) in NAMES.items()
            if (target, scope) in layers
        ]
        found += [
            MemoryFile(
                name=f"archive/{name}",
                text=entry_lines.render(rows),
                about=ARCHIVED,
                read_only=True,
            )
            for name, (target, scope, _) in NAMES.items()
            if (target, scope) in layers and (rows := _rows(layers[target, scope], archived=True))
        ]
        found += [
            MemoryFile(
                name=f"episodes/{one.session_id}.md", text=report.episode(one), read_only=True
            )
            for one in await self._episodes()
        ]
        return found

    async def put(self, name: str, before: str, after: str) -> Sequence[Outcome]:
        """Raises: MemoryRefused, StorageError, BusyError; then nothing was changed."""
        if name.startswith(("archive/", "episodes/")):
            raise folder.read_only(name)
        if name not in NAMES:
            raise folder.unknown(name, list(NAMES))
        target, scope, _ = NAMES[name]
        file = self._layers().get((target, scope))
        steps = entry_lines.steps(_rows(file, archived=False) if file else [], after)
        for step in steps:
            if step.text is not None:
                check_text(step.text)
        system, author = self._system, self._system.author()

        async def do(step: Step) -> Outcome:
            if step.key is None:
                return await system.writer.add(target, scope, step.text or "", author)
            if step.text is None:
                return await system.writer.remove(target, scope, step.key, author)
            return await system.writer.replace(target, scope, step.key, step.text, author)

        return await entry_lines.apply(steps, do, system)

    def _layers(self) -> dict[tuple[Target, Scope], FactFile]:
        files = self._system.files()
        entries = {entry for file in files for entry in file.entries}
        return {(file.target, file.scope): file for file in self._system.marked(files, entries)}


def _rows(file: FactFile, *, archived: bool) -> list[Row]:
    """The entries as a model sees them: without expired ones."""
    entries = file.in_archive if archived else file.standing
    known = ((entry, file.doubts.get(entry)) for entry in entries)
    return [
        Row(key=entry, text=entry, mark=doubt.mark if doubt else "")
        for entry, doubt in known
        if doubt is None or not doubt.expired
    ]
