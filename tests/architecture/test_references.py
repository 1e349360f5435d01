"""What pages, docstrings and comments refer to is in the repository: files by their path, modules
by their name. Links between pages: `tests/test_pages.py`."""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [path for room in ("kode", "bench") for path in sorted((ROOT / room).rglob("*.py"))]
READ = [path for path in (*PAGES, *MODULES) if "everyday/project" not in path.as_posix()]

PATH = re.compile(r"(?<![\w/.~-])((?:kode|tests|bench|docs)/[\w./*-]*\w)")
DOTTED = re.compile(r"(?<![\w./-])((?:kode|tests|bench)(?:\.[a-z_]\w*)+)")

INVENTED = {
    "kode.json",  # a project's settings
    "kode/tools/count_lines.py",
    "kode.tools.count_lines",
    "tests/tools/test_count_lines.py",
    "kode.memory.plain",
    "kode/memory/plain.py",
    "kode.providers.echo",
    "kode/providers/echo.py",
    "tests/test_dates.py",
    "tests/cli/render.py",
}
"""In the examples that pages and docstrings give."""


def prose(path: Path) -> str:
    """The text of a page; of a module its docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    said = [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*said, *(one.string for one in tokens if one.type == tokenize.COMMENT)])


@cache
def is_a_module(name: str) -> bool:
    """Whether a dotted name is a module, or a name in one."""
    *folders, last = name.split(".")
    for at in (ROOT.joinpath(*folders, last), ROOT.joinpath(*folders)):
        for file in (at.with_suffix(".py"), at / "__init__.py"):
            if file.exists():
                whole = at.name == last
                return whole or re.search(rf"\b{last}\b", file.read_text()) is not None
    return len(folders) > 2 and is_a_module(".".join(folders))  # a method, a field


@cache
def is_a_file(name: str) -> bool:
    return "NAME" in name or any(ROOT.glob(name))


def missing(path: Path) -> list[str]:
    # Most modules name nothing that is gone even in their code, and need no parsing.
    return missing_in(path.read_text(encoding="utf-8")) and missing_in(prose(path))


def missing_in(text: str) -> list[str]:
    gone = {name for name in PATH.findall(text) if not is_a_file(name)}
    gone |= {name for name in DOTTED.findall(text) if not is_a_module(name)}
    return sorted(gone - INVENTED)


def test_every_reference_names_something_in_the_repository() -> None:
    gone = {str(path.relative_to(ROOT)): names for path in READ if (names := missing(path))}
    assert gone == {}


def test_a_reference_to_nothing_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("See `kode/gone.py`, `docs/gone.md`, `kode.gone` and `kode.events.gone_too`.")
    assert missing(page) == ["docs/gone.md", "kode.events.gone_too", "kode.gone", "kode/gone.py"]
