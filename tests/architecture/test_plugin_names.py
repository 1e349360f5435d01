"""`kode.plugin` is the only boundary between kode and plug-ins, and gets no wider."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

from kode import plugin
from kode.installed import Plugin

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")

CEILING = 100
"""Goes down only."""


def importable_names() -> dict[str, object]:
    return {name: getattr(plugin, name) for name in plugin.__all__}


def test_every_name_can_be_imported_and_none_is_a_module() -> None:
    modules = [name for name, value in importable_names().items() if isinstance(value, ModuleType)]
    assert modules == []


def test_the_names_are_as_few_as_they_were() -> None:
    assert len(importable_names()) <= CEILING


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(plugin.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        name.asname or name.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    seen |= {
        target.id
        for node in block.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert {name for name in seen if not name.startswith("_")} == set(plugin.__all__)


def test_every_name_is_used_by_a_plugin_or_an_example() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "kode/plugins").rglob("*.py")]
    examples, _, _ = PAGE.partition("## All names")
    words = set(re.findall(r"\w+", "\n".join([*texts, examples])))
    assert set(plugin.__all__) - words == set()


def test_the_page_lists_every_name_once_and_no_other() -> None:
    _, _, rest = PAGE.partition("## All names")
    listed = re.findall(r"`(\w+)`", rest.partition("\n## ")[0])
    assert sorted(listed) == sorted(plugin.__all__)


def test_the_page_names_each_part_of_a_plugin() -> None:
    missing = [field.name for field in fields(Plugin) if not re.search(rf"\b{field.name}\b", PAGE)]
    assert missing == []
