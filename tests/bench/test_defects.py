"""Defects that are made on purpose: always the same, small, and undone by their fix."""

import ast

import pytest
from hypothesis import given, strategies as st

from bench.tasks.defects import KINDS, defects, fix_of

SOURCE = '''\
"""A module with ü before the code, so that bytes and characters differ."""

WIDTH = 80 + 1


def wrap(text, width=72, *, strict=True, mark="ü"):
    """Says "ü" (and + and < are no operators here)."""
    if not text:
        return []
    if strict and width <= 0 or width is None:  # a < b
        raise ValueError(mark + "width")
    elif width == 1:
        return list(text)
    lines = []
    for start in range(0, len(text) - 1 + 1, width):
        line = text[start : start + width]
        if line in lines:
            continue
        lines.append(line)
    return lines[1:] if (
        lines[0]  # not lines[0] == ""
        == ""
    ) else lines
'''


def test_every_kind_of_defect_is_found() -> None:
    assert {defect.kind for defect in defects(SOURCE)} == set(KINDS)


def test_the_same_source_has_the_same_defects() -> None:
    assert defects(SOURCE) == defects(SOURCE)


def test_no_two_defects_are_the_same() -> None:
    found = [defect.after for defect in defects(SOURCE)]

    assert len(set(found)) == len(found)


def test_a_defect_changes_the_program_in_one_place() -> None:
    for defect in defects(SOURCE):
        assert ast.dump(ast.parse(defect.after)) != ast.dump(ast.parse(SOURCE))
        old_text, new_text = fix_of(defect.before, defect.after)
        assert defect.after.replace(old_text, new_text) == SOURCE
        assert old_text.count("\n") <= 2


def test_code_outside_of_functions_stays_as_it_is() -> None:
    assert all("WIDTH = 80 + 1\n" in defect.after for defect in defects(SOURCE))


def test_the_line_of_a_defect_is_where_the_texts_part() -> None:
    for defect in defects(SOURCE):
        lines = zip(defect.before.splitlines(), defect.after.splitlines(), strict=False)
        first = next(n for n, (before, after) in enumerate(lines, 1) if before != after)
        assert abs(defect.line - first) <= 1


def test_a_dropped_branch_leaves_pass_where_nothing_else_would_be() -> None:
    source = "def f(x):\n    if x:\n        x.go()\n"

    (defect,) = [each for each in defects(source) if each.kind == "dropped-branch"]

    assert defect.after == "def f(x):\n    pass\n"


def test_text_that_is_no_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        defects("def f(:\n")


@given(
    lines=st.lists(st.sampled_from(["a\n", "b\n", "\n"]), min_size=1, max_size=8),
    at=st.integers(0, 7),
    put=st.sampled_from(["", "a\n", "c\n", "b\nb\n"]),
)
def test_a_fix_occurs_once_and_gives_the_text_back(lines: list[str], at: int, put: str) -> None:
    at %= len(lines)
    before, after = "".join(lines), "".join([*lines[:at], put, *lines[at + 1 :]])
    if not after:
        return

    old_text, new_text = fix_of(before, after)

    assert after.count(old_text) == 1
    assert after.replace(old_text, new_text) == before
