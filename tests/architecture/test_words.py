"""One word for each thing in what people read: the table of words in CONTRIBUTING.md, as far as a
string can be looked at alone. Names of fields and keys are no sentences, docstrings no messages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

INSTEAD = {
    r"\bexit code|\bexit 0\b": "exit status",
    r"kode continue --id": "kode -r ID",
    r"\bkode (trust|skills|hooks|agents|extension)\b(?!/)": "kode extensions ...",
    r"\b[Gg]o back to before\b|\bgo back in\b": "rewind",
    r"\bYes holds\b|\ba yes\b|\byour yes\b": "approval, permission or answer",
    r"\banew\b|\bof yours\b|\bkode goes on\b": "again, your own, kode continues",
}
"""What no text has → the word for it."""

FOR_A_SHELL = "kode/tools/processes.py"
"""A script that ends with `exit 0`."""


def texts(path: Path) -> Iterator[str]:
    """Every string of a module but its docstrings."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


@pytest.mark.parametrize("avoided", INSTEAD)
def test_a_thing_has_one_word_on_the_screen(avoided: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text[:80]!r}: {INSTEAD[avoided]}"
        for path in sorted((ROOT / "kode").rglob("*.py"))
        for text in texts(path)
        if re.search(avoided, text) and str(path.relative_to(ROOT)) != FOR_A_SHELL
    ]
    assert found == []
