"""Facts cross from module to module as values: none finds them in a sentence that another module
wrote for people or models. Three forms of that are found: a constant of another module that holds a
sentence, and a literal that is a piece of another module's text, where either is compared with a
text, looked for in one, or cut off it; and a word that another module's text begins with, where a
text is asked for its beginning."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.architecture import modules

METHODS = frozenset(
    "startswith endswith removeprefix removesuffix partition rpartition split rsplit index find "
    "replace count search match fullmatch findall finditer sub compile".split()
)
"""Methods of `str` and `re` that read a text."""
SENTENCE = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")

FIRST_WORD = re.compile(r"[A-Za-z]{2,}:? $")
BEGINNINGS = frozenset(("startswith", "removeprefix"))

ALLOWED: Mapping[tuple[str, str], str] = {
    ("kode/memory/commands.py", "usage: "): "argparse's word",
}
"""(module, text or name of the constant) → the format that it is."""


def readers(trees: Mapping[str, ast.Module]) -> set[tuple[str, str]]:
    """(module, what it looks for of another module's text)"""
    named = {dotted(path): constants(tree) for path, tree in trees.items()}
    texts = {path: "\n".join(written(tree)) for path, tree in trees.items()}
    every_text = "\n".join(texts.values())
    begins = {path: beginnings(tree) for path, tree in trees.items()}
    found = set()
    for path, tree in trees.items():
        imported = {
            name.asname or name.name: (node.module, name.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        for part in (part for read in compared(tree) for part in ast.walk(read)):
            if isinstance(part, ast.Name) and part.id in imported:
                module, name = imported[part.id]
                found |= {(path, name)} if name in named.get(module or "", ()) else set()
            elif is_sentence(part):
                piece = part.value.strip()  # type: ignore[attr-defined]
                if piece in every_text:
                    others = (text for other, text in texts.items() if other != path)
                    found |= {(path, piece)} if any(piece in text for text in others) else set()
        for word in first_words(tree):
            others = (begun for other, begun in begins.items() if other != path)
            found |= {(path, word)} if any(word in begun for begun in others) else set()
    return found


def first_words(tree: ast.Module) -> Iterator[str]:
    """The words, with the space after them, that a module looks for at a text's beginning."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in BEGINNINGS
        ):
            for part in (part for given in node.args for part in ast.walk(given)):
                value = part.value if isinstance(part, ast.Constant) else None
                if isinstance(value, str) and FIRST_WORD.match(value):
                    yield value


def beginnings(tree: ast.Module) -> set[str]:
    """The first words of the texts that a module puts together, with the space after them."""
    heads = (
        node.values[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant)
    )
    return {f"{str(head).partition(' ')[0]} " for head in heads if " " in str(head)}


def dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def constants(tree: ast.Module) -> set[str]:
    """The names of a module's constants that hold a sentence."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Constant | ast.JoinedStr | ast.BinOp)
        and any(map(is_sentence, ast.walk(node.value)))
        for target in ([node.target] if isinstance(node, ast.AnnAssign) else node.targets)
        if isinstance(target, ast.Name)
    }


def written(tree: ast.Module) -> Iterator[str]:
    """The sentences of a module, but for docstrings and those that it looks for itself."""
    left_out = {id(part) for read in compared(tree) for part in ast.walk(read)}
    left_out |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if is_sentence(node) and id(node) not in left_out:
            yield node.value  # type: ignore[attr-defined]


def is_sentence(node: ast.AST) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and SENTENCE.search(text) is not None


def compared(tree: ast.Module) -> Iterator[ast.expr]:
    """Whatever a module compares with, looks for in, or cuts off a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)
        elif isinstance(node, ast.MatchValue):
            yield node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
        ):
            yield from node.args


@pytest.mark.slow
def test_no_module_reads_another_modules_sentences() -> None:
    assert readers(modules()) == ALLOWED.keys()


def test_readers_of_sentences_are_found(tmp_path: Path) -> None:
    room = tmp_path / "kode"
    room.mkdir()
    (room / "writer.py").write_text(
        'GONE = "It is gone."\ndef f(n): return f"The {n} is off now"\n'
    )
    (room / "reader.py").write_text(
        "from kode.writer import GONE\n"
        "def f(t): return t.removeprefix(GONE) or 'is off now' in t or t == 'is on now'\n"
        "def g(t): return t.startswith(('The ', 'An '))\n"
    )

    assert readers(modules(room)) == {
        ("kode/reader.py", "GONE"),
        ("kode/reader.py", "is off now"),
        ("kode/reader.py", "The "),
    }
