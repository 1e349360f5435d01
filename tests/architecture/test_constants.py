"""A number in the code says where it comes from: a measurement, a vendor's document, a reason."""

import ast
from collections.abc import Iterator

from tests.architecture import KODE, modules

STILL_BARE = 110
"""How many constants may still be without one. It only goes down."""


def test_every_numeric_constant_gives_its_reason() -> None:
    bare = [
        f"{path}:{line}"
        for path, tree in modules().items()
        for line in bare_constants(tree.body, (KODE.parent / path).read_text(encoding="utf-8"))
    ]

    assert len(bare) <= STILL_BARE, bare


def bare_constants(body: list[ast.stmt], text: str) -> Iterator[int]:
    """The lines of a module's numeric constants that have neither a docstring nor a comment."""
    lines = text.splitlines()
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not is_number(statement.value):
            continue
        beside = lines[(statement.end_lineno or 0) - 1]
        above = lines[statement.lineno - 2] if statement.lineno > 1 else ""
        if not (is_text(after) or "#" in beside or above.startswith("#")):
            yield statement.lineno


def is_number(value: ast.expr | None) -> bool:
    """Whether it is a number, or arithmetic or a tuple of numbers."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=[_, *_] as elements):
            return all(map(is_number, elements))
    return False


def is_text(statement: ast.stmt | None) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False
