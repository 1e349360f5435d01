"""The recipe in `docs/adding-a-tool.md`, carried out."""

import re
import sys
import types
from pathlib import Path

import pytest

from tests.tools.conftest import Call

RECIPE = Path(__file__).parents[2] / "docs" / "adding-a-tool.md"


@pytest.fixture
def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", RECIPE.read_text(), re.MULTILINE | re.DOTALL)


async def test_the_recipe_makes_a_tool_whose_tests_pass(
    blocks: list[str], call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, tests = blocks
    module = types.ModuleType("kode.tools.count_lines")
    monkeypatch.setitem(sys.modules, "kode.tools.count_lines", module)
    exec(compile(source, "count_lines.py", "exec"), module.__dict__)
    namespace: dict[str, object] = {}
    exec(compile(tests, "test_count_lines.py", "exec"), namespace)
    functions = [value for name, value in namespace.items() if name.startswith("test_")]

    for function in functions:
        await function(call, project)  # type: ignore[operator]

    assert len(functions) == 2
    parameters = module.count_lines.parameters()
    assert parameters["required"] == ["path"]
    assert parameters["properties"]["path"] == {"description": "A text file", "type": "string"}
