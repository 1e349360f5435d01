"""The share of public functions that say which errors a caller has to handle. It only rises: raise
the floor when you have passed it."""

import ast
from collections.abc import Iterator

from tests.architecture import modules

SAYS_ERRORS = 0.98

FOR_MODELS = {"tool", "memory_tool"}
"""A function decorated so has the docstring that the model reads; its errors go to the model."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_public_functions_say_which_errors_they_raise() -> None:
    raising = [(where, one) for where, one in _public_functions() if _raises(one)]
    silent = [where for where, one in raising if not _says_errors(ast.get_docstring(one) or "")]
    share = 1 - len(silent) / len(raising)
    assert share >= SAYS_ERRORS, "\n".join(silent)


def _public_functions() -> Iterator[tuple[str, Function]]:
    for path, module in modules().items():
        for node in _public(module.body):
            yield f"{path}:{node.lineno} {node.name}", node


def _public(body: list[ast.stmt]) -> Iterator[Function]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node.body)
        elif isinstance(node, Function) and not node.name.startswith("_"):
            names = [ast.unparse(one).partition("(")[0] for one in node.decorator_list]
            if not FOR_MODELS & set(names):
                yield node


def _raises(node: ast.AST) -> bool:
    """Whether it raises an error of its own: not one that it caught, none of a fault in kode."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            name = ast.unparse(child.exc).partition("(")[0]
            if name not in ("AssertionError", "NotImplementedError"):
                return True
        if _raises(child):
            return True
    return False


def _says_errors(docstring: str) -> bool:
    """Also by naming where it is said: `See tool.Gate`."""
    return "aises" in docstring or docstring.startswith("See ")
