"""A test's name is a short sentence that says the behaviour, subject first."""

import ast
import re
from pathlib import Path

from tests.architecture import modules

TESTS = Path(__file__).parents[1]
NAME = re.compile(r"^ *(?:async )?def test_(\w+)\(", re.MULTILINE)
MAX_WORDS = 10
NO_SUBJECTS = {
    *("after", "as", "at", "before", "how", "in", "nothing", "of", "on", "what", "whatever"),
    *("where", "which", "who", "whoever", "with", "without"),
}
NOT_YET = {TESTS / "memory": NO_SUBJECTS - {"of", "what", "which", "who", "whoever"}}
"""Folders whose names may still begin with these words."""


def test_every_test_is_named_by_a_short_sentence() -> None:
    wrong = []
    for path in sorted(TESTS.rglob("test_*.py")):
        allowed = {word for folder in path.parents for word in NOT_YET.get(folder, ())}
        for name in NAME.findall(path.read_text(encoding="utf-8")):
            words = name.split("_")
            if len(words) > MAX_WORDS or words[0] in NO_SUBJECTS - allowed:
                wrong.append(f"{path.relative_to(TESTS)} test_{name}")

    assert wrong == []


PUBLIC = {"Conversation", "ToolOutput"}
"""Names of the interface for programs and of what it holds, or of an event of scripts."""


def test_a_class_name_means_one_class() -> None:
    homes: dict[str, list[str]] = {}
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name not in PUBLIC:
                homes.setdefault(node.name.strip("_"), []).append(path)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
