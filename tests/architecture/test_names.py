"""A test's name is a short sentence that says the behaviour, subject first."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAX_WORDS = 10
NO_SUBJECTS = {"of", "what", "which", "who", "whoever", "without"}


def test_every_test_is_named_by_a_short_sentence() -> None:
    wrong = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                test, *words = node.name.split("_")
                if test == "test" and (len(words) > MAX_WORDS or words[0] in NO_SUBJECTS):
                    wrong.append(f"{path.relative_to(TESTS)}:{node.lineno} {node.name}")

    assert wrong == []
