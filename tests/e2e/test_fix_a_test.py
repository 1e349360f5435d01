"""A person has a failing test fixed in mode `ask`, at a real terminal: the only questions are about
the edit and about what leaves the project's files for git."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import KODE, Place, needs_a_whole_sandbox
from tests.e2e.terminal import Terminal
from tests.needs import skip_without
from tests.scripted_server import ScriptedServer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]

OFFER = "y  yes, once"
COMMIT = 'git add -A && git commit -q -m "Add instead of subtract"'

LOOKING = [
    "git status --short && git log --oneline -3",
    "ls -la; find . -name '*.py' -not -path './.git/*' | xargs wc -l",
    "python3 -m pytest -q",
    "grep -rn 'def add' --include='*.py' . | head; sed -n '1,20p' calc.py",
    "python3 -c 'import calc; print(calc.add(1, 2))'",
]
CHECKING = [
    "python3 -m pytest -q && echo passed",
    'for f in *.py; do python3 -m py_compile "$f" || exit 1; done',
    "git diff --stat",
]
REPLIES = [
    *({"calls": [{"name": "shell", "arguments": {"command": one}}]} for one in LOOKING),
    {"calls": [{"name": "read_file", "arguments": {"path": "calc.py"}}]},
    {
        "calls": [
            {
                "name": "edit_file",
                "arguments": {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"},
            }
        ]
    },
    *({"calls": [{"name": "shell", "arguments": {"command": one}}]} for one in CHECKING),
    {"calls": [{"name": "shell", "arguments": {"command": COMMIT}}]},
    {"text": "Fixed: add subtracted. The test passes, and the change is committed."},
]


def in_project(place: Place, *words: str) -> str:
    done = subprocess.run(
        words, cwd=place.project, env=place.environ, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def broken(place: Place) -> Place:
    """A repository with one failing test, and caches that git ignores."""
    skip_without("git")
    place.extra["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    (place.folder / ".gitconfig").write_text("[user]\n\tname = Dev\n\temail = dev@example.test\n")
    files = {
        "calc.py": "def add(a, b):\n    return a - b\n",
        "test_calc.py": "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n",
        ".gitignore": "__pycache__/\n.pytest_cache/\n",
    }
    for name, text in files.items():
        (place.project / name).write_text(text)
    in_project(place, "git", "init", "-q")
    in_project(place, "git", "add", "-A")
    in_project(place, "git", "commit", "-q", "-m", "first")
    return place


def test_the_only_questions_are_about_the_edit_and_the_commit(broken: Place) -> None:
    needs_a_whole_sandbox(broken)

    with ScriptedServer(REPLIES) as server:
        broken.url = server.openai_url
        with Terminal(
            KODE, ["Fix the failing test"], cwd=broken.project, env=broken.environ, height=120
        ) as terminal:
            first = terminal.until("answer:", timeout_s=60)
            assert "Change a file" in first
            assert "-     return a - b" in first
            assert "+     return a + b" in first
            assert "1 failed" in first
            assert "Run a command" not in first
            terminal.type("y", "enter")

            second = terminal.until("Keep what", "answer:", timeout_s=60)
            assert second.count(OFFER) == 1
            asked = second[second.index("Keep what") :]
            assert COMMIT in asked
            assert "what git records" in asked
            assert "objects" not in asked
            terminal.type("a")
            terminal.until("shell(git commit:*)")
            terminal.type("\x7f", "y", "enter")

            text = terminal.until("the change is committed", timeout_s=60)
            assert OFFER not in text
            assert text.count("Allowed once: ") == 1
            assert "Denied" not in text
            assert "sandbox" not in text
            terminal.type("/quit", "enter")
            assert terminal.ended() == 0
        sent = json.dumps([request.json["messages"] for request in server.requests])

    assert "passed" in sent
    assert (broken.project / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert "Add instead of subtract" in in_project(broken, "git", "log", "-1", "--format=%s")
    assert in_project(broken, "git", "status", "--porcelain") == ""
    assert not (broken.project / ".pytest_cache").exists()


def test_a_command_that_leaves_the_machine_is_asked_about_first(broken: Place) -> None:
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": "git push origin HEAD"}}]},
        {"text": "Not pushed."},
    ]
    with ScriptedServer(replies) as server:
        broken.url = server.openai_url
        with Terminal(KODE, ["Push it"], cwd=broken.project, env=broken.environ) as terminal:
            text = terminal.until("answer:", timeout_s=60)
            assert "git push origin HEAD" in text
            terminal.type("n", "enter")
            terminal.until("Not pushed.", timeout_s=60)
            terminal.type("/quit", "enter")
            assert terminal.ended() == 0
