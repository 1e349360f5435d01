"""One word for each thing in what people read: the table of words in CONTRIBUTING.md, as far as a
string can be looked at alone. Names of fields and keys are no sentences, docstrings no messages."""

import ast
import re
from collections.abc import Iterator

from tests.architecture import modules

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


def texts(tree: ast.Module) -> Iterator[str]:
    """Every string of a module but its docstrings."""
    docs = set[ast.expr]()
    for node in ast.walk(tree):  # a statement comes before its parts
        if isinstance(node, ast.Expr):
            docs.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs:
            yield node.value


def test_a_thing_has_one_word_on_the_screen() -> None:
    any_avoided = re.compile("|".join(INSTEAD))
    found = [
        f"{path}: {text[:80]!r}: {word}"
        for path, tree in modules().items()
        if path != FOR_A_SHELL
        for text in texts(tree)
        if any_avoided.search(text)
        for avoided, word in INSTEAD.items()
        if re.search(avoided, text)
    ]
    assert found == []
