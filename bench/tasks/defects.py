"""Small defects in Python source, as people make them. One defect is a change of a few characters,
or a statement less; all else in the text stays byte for byte.

    swap            an operator is another: `+` for `-`, `or` for `and`, `not in` for `in`
    off-by-one      `<=` for `<`, an index or a bound that is one too high
    dropped-branch  an `if` without `else` is missing
    wrong-default   a parameter's default is another value

Not here: whether a test notices (`tasks`).
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

KINDS = ("swap", "off-by-one", "dropped-branch", "wrong-default")

MAX_BRANCH_LINES = 6
"""A longer branch cannot be written again from what the tests say."""

SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.FloorDiv: ("//", "*"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
BOUNDS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Defect:
    kind: str
    line: int
    """Where it is in the defective text, from 1."""
    before: str
    """The whole text, right."""
    after: str
    """The whole text, defective."""


@dataclass(frozen=True)
class _Site:
    """Bytes `start` to `end` become `put`."""

    kind: str
    start: int
    end: int
    put: bytes


def defects(source: str) -> list[Defect]:
    """Every defect that can be made inside the functions of a module, in the order of the text;
    each is another program than `source`.

    Raises: SyntaxError, ValueError when the source is no Python.
    """
    tree = ast.parse(source)
    text = _Text(source)
    shape = ast.dump(tree)
    found = []
    for site in sorted(set(_sites(tree, text)), key=lambda site: (site.start, site.kind, site.put)):
        after = text.replace(site)
        if _shape(after) not in (None, shape):
            line = text.data.count(b"\n", 0, site.start) + 1
            found.append(Defect(kind=site.kind, line=line, before=source, after=after))
    return found


def fix_of(before: str, after: str) -> tuple[str, str]:
    """The shortest run of whole lines that occurs once in `after`, and what it becomes so that the
    text is `before` again."""
    right, wrong = before.splitlines(keepends=True), after.splitlines(keepends=True)
    top = 0
    while top < min(len(right), len(wrong)) and right[top] == wrong[top]:
        top += 1
    end = 0
    while end < min(len(right), len(wrong)) - top and right[-1 - end] == wrong[-1 - end]:
        end += 1
    while True:
        old = "".join(wrong[top : len(wrong) - end])
        if old and after.find(old) == after.rfind(old):  # `count` would miss overlaps
            return old, "".join(right[top : len(right) - end])
        top, end = max(0, top - 1), max(0, end - 1)


class _Text:
    """A source as bytes, which is what the positions of a syntax tree count."""

    def __init__(self, source: str) -> None:
        self.data = source.encode()
        self.starts = [0, *(match.end() for match in re.finditer(rb"\n", self.data))]

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def replace(self, site: _Site) -> str:
        return (self.data[: site.start] + site.put + self.data[site.end :]).decode()


def _shape(source: str) -> str | None:
    """The program without its formatting; None when it is none."""
    try:
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return None


def _sites(tree: ast.Module, text: _Text) -> Iterator[_Site]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for default in (*function.args.defaults, *function.args.kw_defaults):
            yield from _wrong_default(default, text)
        for statement in function.body:
            for node in ast.walk(statement):
                yield from _operators(node, text)
                yield from _numbers(node, text)
                yield from _branches(node, text)
        yield from _branches(function, text)


def _wrong_default(default: ast.expr | None, text: _Text) -> Iterator[_Site]:
    match default:
        case ast.Constant(value=bool(value)):
            put = repr(not value)
        case ast.Constant(value=int(value)):
            put = str(value + 1)
        case ast.Constant(value=str(value)):
            put = repr("" if value else " ")
        case _:
            return
    yield _Site("wrong-default", text.start(default), text.end(default), put.encode())


def _operators(node: ast.AST, text: _Text) -> Iterator[_Site]:
    parts: list[tuple[ast.expr, ast.AST, ast.expr]]
    match node:
        case ast.BinOp(left=left, op=sign, right=right):
            parts = [(left, sign, right)]
        case ast.BoolOp(op=junction, values=values):
            parts = [(left, junction, right) for left, right in pairwise(values)]
        case ast.Compare(left=first, ops=ops, comparators=rest):
            operands = pairwise([first, *rest])
            parts = [(left, op, right) for (left, right), op in zip(operands, ops, strict=True)]
        case _:
            return
    for left, op, right in parts:
        for kind, table in (("swap", SWAPS), ("off-by-one", BOUNDS)):
            if (pair := table.get(type(op))) is None:
                continue
            # Between two operands stand only the operator, brackets, white space and comments.
            pattern = rb"\s+".join(re.escape(word.encode()) for word in pair[0].split())
            between = text.end(left), text.start(right)
            if found := re.compile(pattern).search(text.data, *between):
                yield _Site(kind, found.start(), found.end(), pair[1].encode())


def _numbers(node: ast.AST, text: _Text) -> Iterator[_Site]:
    match node:
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper)):
            bounds = [lower, upper]
        case ast.Subscript(slice=index):
            bounds = [index]
        case ast.Call(func=ast.Name(id="range"), args=arguments):
            bounds = [*arguments]
        case ast.Compare(comparators=comparators):
            bounds = [*comparators]
        case ast.BinOp(op=ast.Add() | ast.Sub(), right=right):
            bounds = [right]
        case _:
            return
    for bound in bounds:
        if isinstance(bound, ast.Constant) and type(bound.value) is int:
            put = str(bound.value + 1).encode()
            yield _Site("off-by-one", text.start(bound), text.end(bound), put)


def _branches(parent: ast.AST, text: _Text) -> Iterator[_Site]:
    """The `if` statements directly below; an `elif` stands in the `orelse` of its `if`."""
    for name in ("body", "finalbody"):
        body = getattr(parent, name, None)
        if not isinstance(body, list):
            continue
        for branch in body:
            if not isinstance(branch, ast.If) or branch.orelse:
                continue
            start, end = text.start(branch), text.end(branch)
            if text.data.count(b"\n", start, end) >= MAX_BRANCH_LINES:
                continue
            if len(body) == 1:
                yield _Site("dropped-branch", start, end, b"pass")
                continue
            line = text.data.rfind(b"\n", 0, start) + 1
            after = text.data.find(b"\n", end)
            if not text.data[line:start].strip() and after >= 0:
                yield _Site("dropped-branch", line, after + 1, b"")
