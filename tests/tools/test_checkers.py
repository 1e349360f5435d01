"""What checkers find newly wrong after an edit: programs of the test that print what they are told,
and real ones where they are installed."""

import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kode.events import Event, ToolFinished
from kode.tools.checkers import MAX_LINES, find_syntax_error
from tests.extensions.found_extensions.conftest import Open, World, opened as opened, world as world
from tests.needs import needs
from tests.tables import for_each

FAKE = """#!/bin/sh
n=0
while IFS= read -r line; do
  n=$((n+1))
  case $line in *wrong*) echo "a.py:$n:1: F821 Undefined name \\`$line\\`";; esac
done
"""


@pytest.fixture
def ruff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program called ruff on the PATH, before all others."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def install(text: str) -> None:
        (folder / "ruff").write_text(text)
        (folder / "ruff").chmod(0o755)

    return install


@pytest.fixture
def result_of(world: World, opened: Open, events: list[Event]) -> Callable[..., Awaitable[str]]:
    """What the model reads of an edit of a file, read before where there is one."""

    async def edit(content: str, path: str = "a.py", **flags: object) -> str:
        calls = [{"name": "write_file", "arguments": {"path": path, "content": content}}]
        if (world.project / path).exists():
            calls.insert(0, {"name": "read_file", "arguments": {"path": path}})
        talk = await opened({"calls": calls}, {"text": "done"}, mode="auto-edit", **flags)
        await talk.turn("edit")
        return [event for event in events if isinstance(event, ToolFinished)][-1].text

    return edit


OFF = {"sandbox.enabled": False}


@pytest.mark.parametrize(
    ("content", "errors"),
    [
        ("more\nold wrong\nnew wrong\n", "\na.py:3: F821 Undefined name `new wrong`"),
        ("x\nold wrong\n", ""),
        ("".join(f"wrong {n}\n" for n in range(30)), "\nand 20 more"),
    ],
)
async def test_only_what_is_newly_wrong_is_reported(
    world: World, ruff, result_of, content: str, errors: str
) -> None:
    ruff(FAKE)
    world.write("a.py", "old wrong\nfine\n")

    text = await result_of(content, **OFF)

    _, head, lines = text.partition("[ruff: wrong since this edit]")
    assert bool(head) == bool(errors)
    assert lines.endswith(errors)
    assert len(lines.splitlines()) <= MAX_LINES + 2


@pytest.mark.parametrize(("before", "says"), [("[1]\n", True), ("[1\n", False)])
async def test_a_new_syntax_error_is_reported_without_a_checker(
    world: World, result_of, before: str, says: bool
) -> None:
    world.write("a.json", before)

    text = await result_of("[1,\n2 3]\n", "a.json")

    assert bool(re.search(r"\[wrong since this edit\]\na\.json: .* line 2 ", text)) is says


@pytest.mark.parametrize("broken", ["#!/bin/sh\nsleep 60\n", "#!/bin/sh\nexit 3\n", "no program"])
@pytest.mark.slow
async def test_a_checker_that_hangs_or_fails_costs_an_edit_nothing(
    world: World, ruff, result_of, broken: str
) -> None:
    ruff(broken)
    world.write("a.py", "x\n")

    assert "[" not in await result_of("y\n", **OFF)
    assert (world.project / "a.py").read_text() == "y\n"


async def test_a_key_turns_checkers_off(ruff, result_of) -> None:
    ruff(FAKE)

    assert "wrong since" not in await result_of("wrong\n", diagnostics=False, **OFF)


async def test_a_projects_checker_does_not_run_outside_a_sandbox(
    world: World, result_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(".venv/bin/ruff", "#!/bin/sh\ntouch effect\n", mode=0o755)
    monkeypatch.setenv("PATH", f"{world.project}/.venv/bin{os.pathsep}/usr/bin:/bin")

    await result_of("x\n", **OFF)

    assert not (world.project / "effect").exists()


@needs("bwrap")
async def test_a_projects_checker_runs_sandboxed_and_changes_nothing(
    world: World, result_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.tools.checkers.LIMIT_S", 60.0)
    noisy = FAKE.replace("n=0\n", "n=0; touch effect /tmp/kode-effect\n", 1)
    world.write(".venv/bin/ruff", noisy, mode=0o755)

    assert "F821" in await result_of("wrong\n")
    assert not (world.project / "effect").exists()
    assert not Path("/tmp/kode-effect").exists()


@needs("bwrap")
@needs("gofmt")
async def test_go_that_cannot_be_parsed_is_reported(
    world: World, result_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.tools.checkers.LIMIT_S", 60.0)
    world.write("a.go", "package main\n")

    text = await result_of("package main\nfunc {\n", "a.go")

    assert "[gofmt: wrong since this edit]\na.go:2: expected" in text


@for_each(
    ("name", "text", "line"),
    [
        ("a.py", "x = 1\ndef plus(a, b:\n    return a\n", 2),
        ("a.py", "if x:\ny = 1\n", 2),
        ("a.pyi", "def f(: ...\n", 1),
        ("a.json", '{"a": 1,\n "b": 2\n "c": 3}', 3),
        ("n.ipynb", '{"cells": [}', 1),
        ("a.toml", "[a]\nx = \n", 2),
        # What is valid or cannot be judged is not accused.
        ("a.py", "\ufeffx = 1\n", None),
        ("a.py", 'x = "\\d"\n', None),
        ("a.py", "", None),
        ("a.json", "", None),
        ("tsconfig.json", '{\n  // why\n  "a": 1,\n}', None),
        ("a.toml", "x = 1\n", None),
        ("a.md", "def f(:", None),
        ("a.json", "[" * 100_000, None),
        ("a.py", "# caf\udce9\nx = (\n", None),
    ],
)
def test_the_line_of_the_first_error_is_named(name: str, text: str, line: int | None) -> None:
    error = find_syntax_error(Path(name), text.encode(errors="surrogateescape"))
    assert f"line {line}" in error if line else error == ""
