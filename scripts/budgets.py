"""Holds the house to its budgets: `python -m scripts.budgets [--write]`, part of `make check`.

`budgets.toml` has the numbers. They only go down: a figure above its number fails; one below it
fails too, until `--write` has lowered the number. Who needs a higher one edits the file by hand and
adds the page in `docs/decisions/` that says why.
"""

import ast
import asyncio
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "budgets.toml"
SLACK = {"lines": 20, "prompt.modules": 1}
"""How far a figure may lie below its number without lowering it: not every commit has to touch the
file, and what runs beside a prompt may bring a module."""

Graph = Mapping[str, frozenset[str]]


def main(argv: Sequence[str]) -> int:
    """Prints every figure that is not within its budget; 1 if there is one."""
    now, held = figures(), flat(tomllib.loads(FILE.read_text(encoding="utf-8")))
    if "--write" in argv:
        lowered = {name: min(value, held.get(name, value)) for name, value in now.items()}
        FILE.write_text(written(lowered), encoding="utf-8")
        held = lowered
    faults = list(faults_in(now, held))
    print("\n".join(faults) or f"{len(now)} figures are within their budgets")
    return 1 if faults else 0


def _slack(name: str) -> int:
    return next((most for start, most in SLACK.items() if name.startswith(start)), 0)


def faults_in(now: Mapping[str, int], held: Mapping[str, int]) -> Iterator[str]:
    """A sentence for each figure that is above its number, or so far below that the number has to
    follow."""
    for name in sorted({*now, *held}):
        value, number = now.get(name), held.get(name)
        if value is None or number is None:
            yield f"{name}: in {'budgets.toml' if value is None else 'the house'} alone"
        elif value > number:
            yield f"{name} is {value}, and its budget {number}: make it smaller"
        elif value < number - _slack(name):
            yield f"{name} is {value}, and its budget {number}: lower it with --write"


def figures() -> dict[str, int]:
    """Every figure by its dotted name: lines, and counts of modules, calls, names and circles."""
    known = modules()
    graph = imports(known)
    core = [name for name in known if not of_plugin(name)]
    found = {"lines.core": sum(lines_of(known[name]) for name in core)}
    for name in known:
        if plugin := of_plugin(name):
            key = f"lines.plugins.{plugin}"
            found[key] = found.get(key, 0) + lines_of(known[name])
    found["door.names"] = names_of_door(known["kode.plugin"])
    found["door.core_to_plugins"] = sum(
        1 for name in core for other in graph[name] if of_plugin(other)
    )
    found["circles.modules"] = sum(len(one) for one in circles(graph))
    found["loop.modules"] = loop_modules()
    return {**found, **walked()}


def of_plugin(module: str) -> str:
    """The plug-in that a module belongs to; "" for the core, and for the package of all."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["kode", "plugins"] and len(parts) > 2 else ""


def modules() -> dict[str, Path]:
    """Every module of kode, by name."""
    found = {}
    for path in sorted((ROOT / "kode").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def names_of_door(path: Path) -> int:
    """How many names `kode.plugin` offers, beside those of its vocabulary modules."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return len(node.value.keys)
    raise AssertionError("kode.plugin has no table of names")


def imports(known: Mapping[str, Path]) -> Graph:
    """Module → the modules of kode that it imports anywhere: in a function and for types too."""
    return {
        name: frozenset(
            module
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for module in imported(node, known)
            if module != name
        )
        for name, path in known.items()
    }


def imported(node: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module in known:
        for alias in node.names:
            below = f"{node.module}.{alias.name}"
            yield below if below in known else str(node.module)


def circles(graph: Graph) -> list[frozenset[str]]:
    """Groups of modules that reach each other, lazily or for types too."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for other in graph[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        return seen

    far = {name: reached(name) for name in graph}
    groups = {
        frozenset(other for other in far[name] if name in far[other])
        for name in graph
        if name in far[name]
    }
    return sorted(groups, key=sorted)


def loop_modules() -> int:
    """How many modules of kode the loop brings, in a process of its own."""
    code = (
        "import sys, kode.engine.turn; print(sum(m.split('.')[0] == 'kode' for m in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(ran.stdout)


def walked() -> dict[str, int]:
    """What one warm prompt passes through."""
    from bench.walk import walks

    found = asyncio.run(walks())
    return {
        "prompt.modules": found["prompt_modules"],
        "prompt.calls": -(-found["prompt_calls"] // 50) * 50,  # it varies by a few
    }


def flat(values: Mapping[str, object], prefix: str = "") -> dict[str, int]:
    """Nested tables → dotted names."""
    found: dict[str, int] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            assert isinstance(value, int)
            found[prefix + name] = value
    return found


def written(numbers: Mapping[str, int]) -> str:
    """The file: one table for each part before the last dot."""
    lines = [
        "# What the house may be, and no more: `make check` reads this. Numbers only go down, by",
        "# `python -m scripts.budgets --write`. Raising one takes a page in docs/decisions/.",
    ]
    for table in sorted({name.rpartition(".")[0] for name in numbers}):
        lines += ["", f"[{table}]"]
        lines += [
            f"{name.rpartition('.')[2]} = {value}"
            for name, value in sorted(numbers.items())
            if name.rpartition(".")[0] == table
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
