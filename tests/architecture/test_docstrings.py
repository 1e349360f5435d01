"""Shares of the code that say what a caller, or a reader of a number, has to know. They only rise:
raise a floor when you have passed it."""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import kode

ROOT = Path(kode.__file__).parent
SAYS_ERRORS = 0.98
SAYS_SOURCE = 0.50

FOR_MODELS = {"tool"}
"""A function decorated so has the docstring that the model reads; its errors go to the model."""
SELF_EVIDENT = {-1, 0, 1, 2}
"""Numbers that need no source."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_public_functions_say_which_errors_they_raise() -> None:
    raising = [(where, one) for where, one in _public_functions() if _raises(one)]
    silent = [where for where, one in raising if not _says_errors(ast.get_docstring(one) or "")]
    share = 1 - len(silent) / len(raising)
    assert share >= SAYS_ERRORS, "\n".join(silent)


def test_constants_say_where_their_number_comes_from() -> None:
    constants = [found for path in sorted(ROOT.rglob("*.py")) for found in _numbers(path)]
    bare = [where for where, is_said in constants if not is_said]
    share = 1 - len(bare) / len(constants)
    assert share >= SAYS_SOURCE, f"{share:.3f}\n" + "\n".join(bare)


def _public_functions() -> Iterator[tuple[str, Function]]:
    for path in sorted(ROOT.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for node in _public(module.body):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


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
    """Also by naming where it is said: `See contracts.Gate`."""
    return "aises" in docstring or docstring.startswith("See ")


def _numbers(path: Path) -> Iterator[tuple[str, bool]]:
    """The constants of a module that are a number, each with whether words stand beside it."""
    text = path.read_text(encoding="utf-8")
    commented = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    body = ast.parse(text).body
    for at, node in enumerate(body):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not _is_number(node.value):
            continue
        after = body[at + 1] if at + 1 < len(body) else None
        is_said = (
            (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
            or node.lineno - 1 in commented
            or node.lineno in commented
        )
        name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        yield f"{path.relative_to(ROOT)}:{node.lineno} {name}", is_said


def _is_number(value: ast.expr | None) -> bool:
    """A number, or numbers multiplied, that need a source."""
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) or _is_number(value.right)
    return (
        isinstance(value, ast.Constant)
        and isinstance(value.value, int | float)
        and not isinstance(value.value, bool)
        and value.value not in SELF_EVIDENT
    )
