"""The recipe in the documentation is run as it stands there."""

import json
import re
from pathlib import Path

from kode.memory.commands import memory_command
from kode.memory.guarded import Guarded
from kode.memory.overview import overview
from tests.contracts.test_memory_contract import a_turn, context, files_of, live

RECIPE = Path(__file__).parents[2] / "docs" / "adding-a-memory-system.md"
OTHER = "20260302-123400-abcdef"


def system_of_the_recipe():
    (code,) = re.findall(r"```python\n(.*?)```", RECIPE.read_text(), re.DOTALL)
    names = {}
    exec(compile(code, str(RECIPE), "exec"), names)
    return Guarded(names["Requests"](None))


async def opened(root, **changes):
    system = system_of_the_recipe()
    await system.open(context(root, **changes), {})
    return system


async def test_the_system_of_the_recipe_remembers(tmp_path):
    await live(system_of_the_recipe(), tmp_path)

    other = await opened(tmp_path, session_id=OTHER)

    assert "rename the parser" in (await other.inject("start")).system


async def test_the_recipes_system_writes_nothing_when_only_reading(tmp_path):
    await live(system_of_the_recipe(), tmp_path)
    before = files_of(tmp_path)
    again = await opened(tmp_path, read_only=True)

    await again.after_turn(a_turn(9, "something else"))

    assert files_of(tmp_path) == before


async def test_a_person_has_every_command_for_the_recipes_system(tmp_path):
    system = await opened(tmp_path / "one", session_id=None)
    for text in ("build with make", "ports begin at 7100"):
        await memory_command(system, ["add", "asked", text])
    await memory_command(system, ["undo"])

    (entry,) = (await overview(system)).entries
    assert entry.piece.content == "build with make"
    assert "build with make" in await memory_command(system, ["show"])
    assert "by you" in await memory_command(system, ["why", "make"])
    assert "1 entry" in await memory_command(system, ["status"])

    (row,) = map(json.loads, (await memory_command(system, ["export"])).splitlines())
    file = tmp_path / "export"
    file.write_text(json.dumps(row))
    other = await opened(tmp_path / "two", session_id=None)
    told = await memory_command(other, ["import", str(file)])
    assert "imported 1 new" in told
    assert "build with make" in await memory_command(other, ["show"])
    await memory_command(other, told.split("kode memory ")[-1].split())
    assert (await overview(other)).entries == ()


async def test_a_hand_edit_of_the_recipes_file_can_be_undone(tmp_path):
    system = await opened(tmp_path, session_id=None)
    await memory_command(system, ["add", "asked", "build with make"])
    file = tmp_path / "memory" / "requests" / "asked.md"
    file.write_text("build with just\n")

    again = await opened(tmp_path, session_id=None)
    await again.system.reconcile()
    await memory_command(again, ["undo"])

    assert file.read_text().strip() == "build with make"
