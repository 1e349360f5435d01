"""The recipe in the documentation is run as it stands there."""

import re
from pathlib import Path

from kode.memory.guarded import Guarded
from tests.contracts.test_memory_contract import a_turn, context, files_of, live

RECIPE = Path(__file__).parents[2] / "docs" / "adding-a-memory-system.md"


def system_of_the_recipe():
    (code,) = re.findall(r"```python\n(.*?)```", RECIPE.read_text(), re.DOTALL)
    names = {}
    exec(compile(code, str(RECIPE), "exec"), names)
    return Guarded(names["LastWord"](None))


async def test_the_system_of_the_recipe_remembers(tmp_path):
    events = []
    await live(system_of_the_recipe(), tmp_path, emit=events.append)

    again, other = system_of_the_recipe(), system_of_the_recipe()
    await again.open(context(tmp_path), {})
    await other.open(context(tmp_path, session_id="20260302-123400-abcdef"), {})

    assert (await again.inject("resume")).system == ""
    assert "rename the parser" in (await other.inject("start")).system
    assert events == []


async def test_the_recipes_system_writes_nothing_when_only_reading(tmp_path):
    await live(system_of_the_recipe(), tmp_path)
    before = files_of(tmp_path)
    again = system_of_the_recipe()
    await again.open(context(tmp_path, read_only=True), {})

    await again.after_turn(a_turn(9, "something else"))

    assert files_of(tmp_path) == before
