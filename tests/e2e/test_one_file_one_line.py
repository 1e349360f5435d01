"""The pages on adding a tool, a provider and a memory system, followed to the letter in a copy of
the tree: each block becomes the file that the words above it name, or goes into it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import Place

pytestmark = pytest.mark.sampled(of=3)

ROOT = Path(__file__).parents[2]
PAGES = ("adding-a-tool.md", "adding-a-provider.md", "adding-a-memory-system.md")
STEP = re.compile(
    r"((?:^[^\n]+\n)+)\n```(?:python|text|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
"""A paragraph, and the block below it."""
LEFT_OUT = (".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__")


def follow(page: str, tree: Path) -> None:
    """Does in `tree` what the page says."""
    for words, block in STEP.findall((tree / "docs" / page).read_text(encoding="utf-8")):
        names = re.findall(r"`([^`]+)`", words)
        file = tree / next(name for name in names if "/" in name)
        if "at the end of" in words:
            insert(file, rf"^{names[-1]}\b.*?^(?=[)}}])", block)
        elif "below the import of" in words:
            insert(file, rf"^from {re.escape(names[-1])} [^\n]*\n", block)
        elif "at its end" in words:
            insert(file, r"\Z", block)
        elif "before the row of" in words:
            insert(file, rf".*?^(?=\| `{names[-1]}`)", block)
        else:
            assert not file.exists()
            file.write_text(block, encoding="utf-8")


def insert(file: Path, before: str, block: str) -> None:
    text = file.read_text(encoding="utf-8")
    found = re.search(before, text, re.MULTILINE | re.DOTALL)
    assert found is not None, (file, before)
    file.write_text(text[: found.end()] + block + text[found.end() :], encoding="utf-8")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which all pages were followed."""
    copy = tmp_path_factory.mktemp("followed") / "tree"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for page in PAGES:
        follow(page, copy)
    return copy


def test_the_pages_pass_the_tests_of_what_they_add(tree: Path) -> None:
    tests = (
        *("tools/test_count_lines.py", "tools/test_adding_a_tool.py", "test_config.py"),
        *("contracts/test_tool_contract.py", "providers/test_lives.py"),
        *("memory/test_commands.py", "memory/test_operations.py"),
    )
    done = subprocess.run(
        [
            *(Path(sys.executable).parent / "pytest", "-n", "0", "-p", "no:cacheprovider"),
            *("-m", "not slow", *(f"tests/{name}" for name in tests)),
            *("-k", "count_lines or adding_a_tool or acme or plain or explained"),
        ],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_additions_of_the_pages_work(tree: Path, place: Place) -> None:
    (place.project / "a.txt").write_text("one\n\ntwo\n")
    script = place.folder / "script.json"
    count = {"name": "count_lines", "arguments": {"path": "a.txt"}}
    script.write_text(json.dumps([{"calls": [count]}, {"text": "Done."}]))
    place.home.mkdir(mode=0o700)
    (place.home / "config.json").write_text('{"memory": {"system": "plain"}}')

    def run(*arguments: str) -> str:
        """The answer of the copy's `kode`."""
        done = subprocess.run(
            [sys.executable, "-m", "kode", *arguments],
            cwd=place.project,
            env={**place.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("run", "--no-session", "--provider", "echo", "hello there") == "hello there\n"
    run("memory", "add", "facts", "Answer in German")
    assert run("run", "--script", str(script), "count") == "Done.\n"
    (session,) = place.session_files
    assert "a.txt has 3 lines." in session.read_text()
    assert session.read_text().count("Answer in German") == 1
