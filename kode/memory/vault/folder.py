"""The vault's files unchanged, except for the Summary line that kode regenerates with every
write."""

from kode.errors import MemoryRefused
from kode.memory.base import BaseMemory, Outcome
from kode.memory.folder import Folder, MemoryFile
from kode.memory.vault.files import checked_name
from kode.memory.vault.summary import without_summary
from kode.memory.vault.tools import Desk

ABOUT = {
    "facts/user.md": "who the user is; the same in every project",
    "facts/preferences.md": "what they prefer; the same in every project",
    "facts/project.md": "conventions and architecture of this project",
}
"""Files that are offered even if they do not exist yet."""
NOTICE = (
    "facts/NAME.md holds facts, one `- Key: value` a line, episodes/YYYY-MM.md what was done in a "
    "month."
)


def vault_folder(system: BaseMemory, desk: Desk) -> Folder:
    async def files() -> list[MemoryFile]:
        return [_file(desk, name) for name in dict.fromkeys([*ABOUT, *desk.writer.files.names()])]

    return Folder(system=system, notice=NOTICE, files=files, new=lambda name: _file(desk, name))


def _file(desk: Desk, name: str) -> MemoryFile:
    """Raises: MemoryRefused."""
    writer, name = desk.writer, checked_name(name)
    shown = without_summary(writer.files.read(name) or "")

    async def write(after: str) -> list[Outcome]:
        author = desk.author(None)
        if shown:
            # From here on the writer refuses to overwrite changes by somebody else.
            _, text = writer.read(name)
            if without_summary(text) != shown:
                raise MemoryRefused(
                    f"{name} was changed meanwhile. View it again. Nothing was changed."
                )
        if after:
            return [await writer.write(name, after, author, named=(shown,))]
        return [await writer.remove(name, author)]

    about = " ".join(filter(None, (ABOUT.get(name), desk.marks(name))))
    return MemoryFile(name=name, text=shown, about=about, write=write)
