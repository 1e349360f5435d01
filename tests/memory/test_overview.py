"""What a memory keeps, as values for whoever shows it."""

from pathlib import Path

import pytest

from kode import paths
from kode.config import Config
from kode.conversation.memory import open_configured, outside_context
from kode.errors import MemoryRefused
from kode.events import silent
from kode.memory.commands import memory_command
from kode.memory.overview import Overview, changes, overview
from kode.memory.precedence import Rank

KEY = "sk-proj-" + "a1B2c3D4" * 6


async def seen(tmp_path: Path, *commands: str, **settings: object) -> tuple[Overview, list[str]]:
    """The overview after these commands, and the kinds of the changes."""
    config = Config.model_validate(settings)
    context = outside_context(config, tmp_path, emit=silent, read_only=False)
    async with open_configured(config.memory, context) as system:
        for command in commands:
            await memory_command(system, command.split(maxsplit=2))
        return await overview(system), [change.kind for change in changes(system)]


async def test_an_entry_names_its_change_source(tmp_path: Path) -> None:
    found, kinds = await seen(tmp_path, "add user prefers-tabs")
    (entry,) = found.entries
    assert entry.origin is not None
    assert (entry.piece.content, entry.origin.kind) == ("prefers-tabs", "add")
    assert entry.rank == Rank.SAID
    assert (found.system, found.changes, kinds) == ("tiered", 1, ["add"])


async def test_an_entry_written_by_hand_has_no_change(tmp_path: Path) -> None:
    facts = paths.memory_folder(paths.home(), None) / "facts"
    facts.mkdir(parents=True)
    (facts / "user.md").write_text(f"the key is {KEY}")
    found, _ = await seen(tmp_path)
    (entry,) = found.entries
    assert entry.origin is None
    assert KEY not in entry.piece.content


async def test_memory_that_is_off_has_no_overview(tmp_path: Path) -> None:
    with pytest.raises(MemoryRefused):
        await seen(tmp_path, memory={"enabled": False})
