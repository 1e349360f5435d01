"""The tour and the map name files and what is in them; both are there."""

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

    assert 20 < len(named) <= 25
    assert missing == []


def test_each_file_that_the_map_names_is_there() -> None:
    """A file that is named without its folder is in the one named last before it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text.partition("## Where do I change X?")[2].partition("\n## ")[0]
    folder, missing, count = "", [], 0
    for name in re.findall(r"`((?:kode/)?[\w/]*(?:\.py|\.md|\.toml|\.json|/))`", part):
        path = name if "/" in name else folder + name
        folder, count = path.rpartition("/")[0] + "/", count + 1
        missing += [] if (ROOT / path).exists() or (ROOT / name).exists() else [path]

    assert count > 30
    assert missing == []
