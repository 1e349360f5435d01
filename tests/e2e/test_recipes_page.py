"""docs/recipes.md is true: every recipe runs as it stands and does what it promises."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.needs import skip_without
from tests.pictures import png
from tests.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


@dataclass
class Ran:
    place: Place
    code: int
    out: str
    err: str
    asked: list[str]
    """The bodies of all requests."""

    def file(self, name: str) -> str:
        return (self.place.project / name).read_text()


@dataclass
class Recipe:
    """How a recipe is played, and what must have come of it."""

    script: list[dict[str, Any]]
    holds: Callable[[Ran], bool]
    code: int = 0
    extra: dict[str, str] = field(default_factory=dict)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def read_and_edit(path: str, old: str, new: str) -> list[dict[str, Any]]:
    return [
        call("read_file", path=path),
        call("edit_file", path=path, old_text=old, new_text=new),
        {"text": "Done."},
    ]


RENAMED = read_and_edit("src/parse.py", "def parse(", "def parse_line(")
DOCSTRINGS = [
    *read_and_edit("src/parse.py", "def parse", '"""Parses."""\n\ndef parse'),
    *read_and_edit("src/run.py", "import parse", '"""Runs."""\nimport parse'),
]
FIXED = read_and_edit("src/parse.py", "return text", "return text.strip()")
TODOS = '```json\n[{"file": "src/run.py", "line": 3, "text": "tests"}]\n```'

RECIPES = {
    "A commit message from a diff": Recipe(
        [{"text": "Strip the text\n\nSpaces are no part of it."}],
        lambda ran: (
            git(ran, "log", "-1", "--format=%B").startswith("Strip the text\n\nSpaces")
            and "+# changed" in ran.asked[0]
        ),
    ),
    "Why did this fail?": Recipe(
        [{"text": "src/parse.py:2 does not strip"}],
        lambda ran: (
            ran.out == "src/parse.py:2 does not strip\n" and "AssertionError" in ran.asked[0]
        ),
    ),
    "A review that can stop a pipeline": Recipe(
        [{"text": "FAIL\nsrc/parse.py:2 forgets to strip"}],
        lambda ran: ran.file("review.md").startswith("FAIL") and "+# changed" in ran.asked[0],
        code=1,
    ),
    "Fix the tests, within a budget": Recipe(
        [
            call("shell", command="python3 -m unittest -q"),
            *FIXED[:-1],
            call("shell", command="python3 -m unittest -q"),
            FIXED[-1],
        ],
        lambda ran: "AssertionError" in ran.asked[1] and "strip()" in ran.file("src/parse.py"),
    ),
    "The same task for many files": Recipe(
        [*DOCSTRINGS, {"text": "It parses."}, {"text": "It runs."}],
        lambda ran: (
            '"""Parses."""' in ran.file("src/parse.py")
            and '"""Runs."""' in ran.file("src/run.py")
            and sorted(ran.out.splitlines()[-2:]) == ["It parses.", "It runs."]
        ),
    ),
    "Answers for a program": Recipe(
        [{"text": TODOS}], lambda ran: ran.file("todo.txt") == "src/run.py:3: tests\n"
    ),
    "A model on your own machine": Recipe(
        [{"text": "It parses."}],
        lambda ran: ran.out == "It parses.\n" and '"model":"qwen3-coder"' in ran.asked[0],
        extra={"LOCAL_URL": "SERVER", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""},
    ),
    "First a plan, then the work": Recipe(
        [{"text": "1. Rename it"}, *RENAMED],
        lambda ran: (
            "1. Rename it" in ran.out
            and "def parse_line(" in ran.file("src/parse.py")
            and "five points" in ran.asked[-1]
        ),
    ),
    "Continue after a time limit": Recipe(
        [
            {"match": "Go on where", "text": "It is up to date."},
            {"match": "Bring CHANGELOG", "text": "late", "delay_s": 30},
        ],
        lambda ran: "It is up to date." in ran.file("result.json"),
        extra={"LIMIT": "3"},
    ),
    "Share what kode has learned with a team": Recipe(
        [],
        lambda ran: "python3 -m unittest" in other_memory(ran),
        extra={"OTHER_HOME": "OTHER"},
    ),
    "Two kodes side by side": Recipe(
        [
            {"match": "not tested", "text": "run.py"},
            call("read_file", path="src/parse.py"),
            call("edit_file", path="src/parse.py", old_text="text\n", new_text="text.strip()\n"),
            {"text": "It strips now."},
        ],
        lambda ran: (
            "src/parse.py | 2 +-" in ran.out
            and "run.py" in ran.file("untested.log")
            and "strip" not in ran.file("src/parse.py")
        ),
    ),
    "One subagent, without a conversation": Recipe(
        [{"text": "None: parse has one."}], lambda ran: ran.out == "None: parse has one.\n"
    ),
    "What is wrong in this picture?": Recipe(
        [{"text": ".button"}], lambda ran: ran.out == ".button\n" and "base64" in ran.asked[0]
    ),
}


def sections() -> dict[str, list[str]]:
    """Heading → its shell blocks."""
    parts = re.split(r"^## (.*)$", PAGE, flags=re.M)
    return {
        heading: re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def git(ran: Ran, *arguments: str) -> str:
    done = subprocess.run(
        [*GIT, *arguments], cwd=ran.place.project, check=True, capture_output=True, text=True
    )
    return done.stdout


def other_memory(ran: Ran) -> str:
    files = (ran.place.folder / "other").rglob("env.md")
    return "\n".join(path.read_text() for path in files)


@pytest.fixture
def project(place: Place) -> Path:
    """What the recipes speak of: a small repository with a failing test and a change on top."""
    folder = place.project
    skip_without("git")
    for name, text in {
        "src/parse.py": "def parse(text):\n    return text\n",
        "src/run.py": "import parse\n\n# TODO tests\n",
        "test_parse.py": (
            "import sys, unittest\n\nsys.path.insert(0, 'src')\n\n\n"
            "class Test(unittest.TestCase):\n    def test_it_strips(self):\n"
            "        from parse import parse\n\n        self.assertEqual(parse(' a '), 'a')\n"
        ),
        "CHANGELOG.md": "# 1.0\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "screenshot.png").write_bytes(png())
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run([*GIT, "commit", "-qm", "first"], cwd=folder, check=True)
    with (folder / "src" / "run.py").open("a") as file:
        file.write("# changed\n")
    subprocess.run([*GIT, "commit", "-qam", "second"], cwd=folder, check=True)
    (folder / "src" / "new.py").write_text("# changed\n")
    return folder


@pytest.mark.parametrize("heading", sections())
def test_a_recipe_does_what_it_says(place: Place, project: Path, heading: str) -> None:
    recipe = RECIPES[heading]
    blocks = sections()[heading]
    if any("jq " in block for block in blocks):
        skip_without("jq")
    if heading.startswith("The same task"):
        (project / "src" / "new.py").unlink()
    names = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
        "GIT_EDITOR": "true",
    }
    with ScriptedServer(recipe.script) as server:
        place.url = server.openai_url
        values = {"SERVER": server.openai_url, "OTHER": str(place.folder / "other")}
        extra = {name: values.get(value, value) for name, value in recipe.extra.items()}
        done = subprocess.run(
            ["sh", "-eu", "-c", "\n".join(blocks)],
            cwd=project,
            env={**place.environ, **names, "PATH": PATH, **extra},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
        )
        asked = [request.body.decode() for request in server.requests]

    ran = Ran(place, done.returncode, done.stdout, done.stderr, asked)
    assert ran.code == recipe.code, ran.err
    assert "Traceback" not in ran.err
    assert recipe.holds(ran), f"{ran.out}\n{ran.err}"


def test_sections_and_recipes_of_the_page_match() -> None:
    assert set(sections()) == set(RECIPES)
    assert all(sections().values())
