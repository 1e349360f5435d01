"""Sizes are checked from above alone, and `--write` only lowers their ceilings."""

from pathlib import Path

import pytest

from scripts import budgets

LINE = "number = 1\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with 100 lines of `a`, and 10 of `b` and `c` together."""
    for name, lines in (("a/deep", 100), ("b", 4), ("c", 6)):
        folder = tmp_path / "kode" / name
        folder.mkdir(parents=True)
        (folder / "module.py").write_text(LINE * lines)
    ceilings(tmp_path, a=100, bc=1_000)
    return tmp_path


def ceilings(root: Path, *, a: int, bc: int) -> None:
    (root / "budgets.toml").write_text(f'# Why.\n\n[kode]\na = {a}\n"b, c" = {bc}\n')


def test_a_size_passes_up_to_its_ceiling(tree: Path) -> None:
    assert budgets.main([], tree) == 0
    ceilings(tree, a=99, bc=1_000)
    assert budgets.main([], tree) == 1


def test_write_lowers_to_two_percent_above_and_never_raises(tree: Path) -> None:
    budgets.main(["--write"], tree)
    assert (tree / "budgets.toml").read_text() == '# Why.\n\n[kode]\na = 100\n"b, c" = 20\n'

    ceilings(tree, a=2_000, bc=1)
    assert budgets.main(["--write"], tree) == 1
    assert (tree / "budgets.toml").read_text() == '# Why.\n\n[kode]\na = 110\n"b, c" = 1\n'


def test_a_folder_without_a_ceiling_is_a_fault(tree: Path) -> None:
    (tree / "kode" / "d").mkdir()
    assert budgets.main([], tree) == 0
    (tree / "kode" / "d" / "module.py").write_text(LINE)
    assert budgets.main([], tree) == 1


def test_statements_are_counted_without_docstrings(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Text."""\n\n\ndef one():\n    """Text."""\n    two = 2; return two\n')

    assert budgets.count_statements(module) == 3
