"""The tour names files and what is in them; both are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"\[`([\w.]+)`\]\(\.\./(kode/[\w/]+\.py)\)")


def names_in(path: Path) -> set[str]:
    """The functions and classes of a module, methods as `Class.method`."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, kinds):
            continue
        names.add(node.name)
        names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, kinds)}
    return names


def test_all_that_the_tour_names_is_there() -> None:
    named = NAMED.findall((ROOT / "docs" / "tour.md").read_text(encoding="utf-8"))
    missing = [f"{path}: {name}" for name, path in named if name not in names_in(ROOT / path)]

    assert len(named) > 25
    assert missing == []
