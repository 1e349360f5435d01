"""docs/python.md is true: its programs run as they stand."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
PROGRAMS = dict(
    re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```$", PAGE, re.M | re.S)
)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def edit(path: str) -> dict[str, Any]:
    return call("edit_file", path=path, old_text="teh", new_text="the")


PLAYED: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "Ask a question": (
        [call("read_file", path="parse.py"), {"text": "It parses."}],
        ["[read_file parse.py: 2 lines]", "It parses.", "success after 2 steps"],
    ),
    "Your own tool": (
        [
            call("open_tickets", component="parsing"),
            call("open_tickets", component="parser"),
            {"text": "Ticket 31."},
        ],
        ["Ticket 31."],
    ),
    "Your own gate": (
        [
            call("read_file", path="README.md"),
            edit("README.md"),
            call("read_file", path="parse.py"),
            edit("parse.py"),
            {"text": "README.md is fixed."},
        ],
        [
            "refused: Change a file: parse.py",
            "incomplete README.md is fixed.",
            "Undid turn 1 (Fix the typo in README.md and parse.py)",
            "restored README.md",
            "`/redo` reapplies turn 1.",
        ],
    ),
    "A structured answer": (
        [
            {"text": '[{"file": "parse.py", "line": 0, "why": "no return"}]'},
            {"text": '[{"file": "parse.py", "line": 2, "why": "no return"}]'},
        ],
        ["parse.py:2: no return"],
    ),
    "Several at once, and your own memory": (
        [
            {"match": "Review parse", "text": "It has no tests."},
            {"match": "Review README", "text": "It is short."},
        ],
        [
            "parse.py: It has no tests.",
            "README.md: It is short.",
            "2 sentences in the notebook",
        ],
    ),
}


def test_every_program_is_played() -> None:
    assert list(PROGRAMS) == list(PLAYED)


@pytest.mark.parametrize("heading", PLAYED)
def test_a_program_runs_as_it_stands(place: Place, heading: str) -> None:
    replies, printed = PLAYED[heading]
    (place.project / "parse.py").write_text("def parse(text):\n    teh = text\n")
    (place.project / "README.md").write_text("teh parser\n")
    (place.folder / "program.py").write_text(PROGRAMS[heading])
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = subprocess.run(
            [sys.executable, "-W", "error", place.folder / "program.py"],
            cwd=place.project,
            env={**place.environ, "KODE_MODEL": "scripted-model"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == printed
    assert (place.project / "README.md").read_text() == "teh parser\n"
