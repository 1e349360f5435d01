"""Holds the tree to `budgets.toml`: `python -m scripts.budgets [--write]`, part of `make check`.

Each number there is a ceiling. `--write` lowers those that are further above today's size than the
slack, and never raises one.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLACK_PERCENT = 2
"""How far above a size `--write` puts its ceiling, so that a small change fits below it."""
TOP = "*.py"
"""In the name of a row: the modules of the folder itself."""

Rows = Mapping[str, Mapping[str, int]]
"""Numbers by the folder of their table, and by what they are of in it: names of folders."""


def main(argv: Sequence[str], root: Path = ROOT) -> int:
    """Prints what is above its ceiling or has none; 1 if there is any."""
    file = root / "budgets.toml"
    text = file.read_text(encoding="utf-8")
    ceilings = tomllib.loads(text)
    sizes = {
        table: {names: measure(root, table, names) for names in rows}
        for table, rows in ceilings.items()
    }
    if "--write" in argv:
        file.write_text(lower_numbers(text, sizes), encoding="utf-8")
    faults = [*find_excess(sizes, ceilings), *find_missing_rows(root, ceilings)]
    print("\n".join(faults) or "All sizes are within their ceilings")
    return 1 if faults else 0


def measure(root: Path, table: str, names: str) -> int:
    """The lines of these folders together, or the statements of one."""
    if table == "statements":
        return sum(map(count_statements, (root / names).rglob("*.py")))
    return sum(
        len(file.read_bytes().splitlines())
        for name in names.split(", ")
        for file in (root / table).glob(name if name == TOP else f"{name}/**/*.py")
    )


def count_statements(path: Path) -> int:
    """The statements of a module but for docstrings: joining lines does not make them fewer."""
    nodes = [*ast.walk(ast.parse(path.read_bytes()))]
    docstrings = sum(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for node in nodes
    )
    return sum(isinstance(node, ast.stmt) for node in nodes) - docstrings


def lower_numbers(text: str, sizes: Rows) -> str:
    """The file with each number at most its size and the slack, rounded up to a multiple of ten."""
    next_size = iter([size for rows in sizes.values() for size in rows.values()])

    def lower(number: re.Match[str]) -> str:
        ceiling = -(-next(next_size) * (100 + SLACK_PERCENT) // 1000) * 10
        return str(min(int(number[0]), ceiling))

    return re.sub(r"(?<= = )\d+$", lower, text, flags=re.MULTILINE)


def find_excess(sizes: Rows, ceilings: Rows) -> Iterator[str]:
    """A sentence for each size above its ceiling."""
    for table, rows in sizes.items():
        for names, size in rows.items():
            if size > (ceiling := ceilings[table][names]):
                yield (
                    f"[{table}] {names}: {size}, and the ceiling is {ceiling}. Make it smaller, or "
                    "raise the number in budgets.toml and say in the commit why it has to be more."
                )


def find_missing_rows(root: Path, ceilings: Rows) -> Iterator[str]:
    """A sentence for each folder that has no row beside those that have one."""
    for table, rows in ceilings.items():
        all_names = ", ".join(rows).split(", ")
        for folder in sorted((root / table).glob("*/")):
            if folder.name not in all_names and any(folder.rglob("*.py")):
                yield f"[{table}] {folder.name} has no row in budgets.toml."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
