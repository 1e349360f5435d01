"""A provider, a tool and a memory system are one file and one line each, as the pages say."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kode
from tests.e2e.command import Place

DOCS = Path(__file__).parents[2] / "docs"
Run = Callable[..., str]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of kode that a page's recipe is carried out in."""
    copy = tmp_path / "package" / "kode"
    shutil.copytree(Path(kode.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def run(package: Path, place: Place) -> Run:
    """Runs the copy's `kode run` with these arguments and gives its answer."""

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "kode", "run", *arguments],
            cwd=place.project,
            env={**place.environ, "PYTHONPATH": str(package.parent), "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


FORMATS = "FORMATS: Mapping[Api, str] = {"
PROVIDERS = "PROVIDERS: tuple[ProviderRow, ...] = ("


def blocks(text: str, kind: str) -> list[str]:
    """The code of a page in one language."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def carry_out(page: str, package: Path, module: str, registry: str, after: str) -> None:
    """Writes the page's module, and inserts its one line before the line that closes `after`."""
    text = (DOCS / page).read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    (line,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert line.count("\n") == 1
    assert f"`kode/{module}`" in text
    assert f"`kode/{registry}`" in text
    assert not (package / module).exists()
    (package / module).write_text(code)
    before, head, rest = (package / registry).read_text().partition(after)
    body, end, rest = rest.partition("\n" + (")" if after.endswith("(") else "}"))
    (package / registry).write_text(f"{before}{head}{body}\n{line.rstrip()}{end}{rest}")


def test_a_provider(package: Path, run: Run) -> None:
    text = (DOCS / "adding-a-provider.md").read_text(encoding="utf-8")
    (package / "providers" / "echo.py").write_text(blocks(text, "python")[0])
    (lines,) = [block for block in blocks(text, "text") if "echo" in block]
    of_format, row = lines.strip("\n").split("\n\n")
    table = (package / "registry.py").read_text()
    for head, line in ((FORMATS, of_format), (PROVIDERS, row)):
        assert table.count(head) == 1
        table = table.replace(head, f"{head}\n{line}")
    (package / "registry.py").write_text(table)

    assert run("--provider", "echo", "hello there") == "hello there\n"


def test_a_tool(package: Path, run: Run, place: Place) -> None:
    carry_out("adding-a-tool.md", package, "tools/count_lines.py", "tools/builtin.py", "NAMES = (")
    (place.project / "a.txt").write_text("one\n\ntwo\n")
    call = {"name": "count_lines", "arguments": {"path": "a.txt"}}
    script = place.folder / "script.json"
    script.write_text(json.dumps([{"text": "", "calls": [call]}, {"text": "Done."}]))

    assert run("--provider", "scripted", "--script", str(script), "count") == "Done.\n"
    (session,) = place.session_files
    assert "a.txt has 3 lines." in session.read_text()


def test_a_tool_may_be_named_in_a_rule(package: Path, run: Run, place: Place) -> None:
    carry_out("adding-a-tool.md", package, "tools/count_lines.py", "tools/builtin.py", "NAMES = (")
    (place.project / "a.txt").write_text("one\n")
    call = {"name": "count_lines", "arguments": {"path": "a.txt"}}
    script = place.folder / "script.json"
    script.write_text(json.dumps([{"text": "", "calls": [call]}, {"text": "Done."}]))

    run("--provider", "scripted", "--script", str(script), "--deny", "count_lines", "count")
    (session,) = place.session_files
    assert "has 1 lines" not in session.read_text()


def test_a_memory_system(package: Path, run: Run, place: Place) -> None:
    carry_out(
        "adding-a-memory-system.md",
        package,
        "memory/requests.py",
        "registry.py",
        "SYSTEMS: Mapping[str, SystemRow] = {",
    )
    place.home.mkdir()
    config = place.home / "config.json"
    config.write_text(json.dumps({"memory": {"system": "requests"}}))
    os.chmod(config, 0o600)
    script = place.folder / "script.json"
    script.write_text(json.dumps([{"text": "Done."}]))
    scripted = ("--provider", "scripted", "--script", str(script))

    run(*scripted, "rename the parser")
    run(*scripted, "and now?")

    first, second = (path.read_text() for path in place.session_files)
    assert "What was asked before" not in first
    assert "What was asked before" in second
    assert second.count("rename the parser") == 1
