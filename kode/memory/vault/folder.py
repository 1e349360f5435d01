"""The vault's files unchanged, except for the Summary line that kode regenerates with every
write."""

from collections.abc import Sequence

from kode.errors import MemoryRefused
from kode.memory.base import Outcome
from kode.memory.folder import MemoryFile
from kode.memory.vault.files import checked_name
from kode.memory.vault.summary import without_summary
from kode.memory.vault.tools import Desk

ABOUT = {
    "facts/user.md": "who the user is; the same in every project",
    "facts/preferences.md": "what they prefer; the same in every project",
    "facts/project.md": "conventions and architecture of this project",
}
"""Files that are offered even if they do not exist yet."""


class VaultFolder:
    notice = (
        "facts/NAME.md holds facts, one `- Key: value` a line, episodes/YYYY-MM.md what was done "
        "in a month."
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.seen = desk.writer.seen

    async def files(self) -> Sequence[MemoryFile]:
        files = self._desk.writer.files
        return [
            MemoryFile(
                name=name,
                text=without_summary(files.read(name) or ""),
                about=" ".join(filter(None, (ABOUT.get(name), self._desk.marks(name)))),
            )
            for name in dict.fromkeys([*ABOUT, *files.names()])
        ]

    async def put(self, name: str, before: str, after: str) -> Sequence[Outcome]:
        """Raises: MemoryRefused, StorageError, BusyError; then nothing was changed."""
        writer, author = self._desk.writer, self._desk.author(None)
        name = checked_name(name)
        if before:
            # From here on the writer refuses to overwrite changes by somebody else.
            _, text = writer.read(name)
            if without_summary(text) != before:
                raise MemoryRefused(
                    f"{name} was changed meanwhile. View it again. Nothing was changed."
                )
        if after:
            return [await writer.write(name, after, author, named=(before,))]
        return [await writer.remove(name, author)]
