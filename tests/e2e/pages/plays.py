"""What the model says while the blocks of a page run, what must have come of them, and which blocks
cannot run here."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from kode import durable
from tests.e2e.command import Place
from tests.needs import skip_without
from tests.plugins.team.postgres import SYSTEM, started

Replies = Sequence[dict[str, Any]]


@dataclass
class Ran:
    """What a story did."""

    place: Place
    exit_status: int
    outs: list[str]
    """What each block wrote to stdout."""
    errs: list[str]
    """What each block wrote to stderr."""
    asked: list[str]
    """The bodies of all requests to the model."""

    @property
    def out(self) -> str:
        return "".join(self.outs)

    @property
    def said(self) -> str:
        return f"exit status {self.exit_status}\n{self.out}\n{''.join(self.errs)}"

    def file(self, name: str) -> str:
        return (self.place.project / name).read_text()

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.place.project, check=True, capture_output=True, text=True
        )
        return done.stdout


@dataclass(frozen=True)
class Play:
    """How a page, or a section of one, is played."""

    script: Replies = ({"text": "That is how it is."},)
    """See `tests/scripted_server.py`."""
    holds: Callable[[Ran], bool] = lambda ran: True
    """What must have come of it."""
    exit_status: int = 0
    environ: Mapping[str, str] = field(default_factory=dict)
    """`SERVER` stands for the scripted server's address, `FOLDER` for the place's folder."""
    before: Callable[[Place], None] | None = None
    around: Callable[[], AbstractContextManager[Mapping[str, str]]] = lambda: nullcontext({})
    """What is there as long as it runs; gives further variables."""
    repeats: bool = True
    """Whether the last reply is given again and again."""


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


def price_the_model(place: Place) -> None:
    """A server of one's own has no price but that in the settings."""
    durable.make_folder(place.home)
    prices = {"gpt-4.1": {"input": 1.0, "output": 2.0}}
    (place.home / "config.json").write_text(json.dumps({"prices": prices}))


def write_instructions(place: Place) -> None:
    (place.project / "AGENTS.md").write_text("- Tests run with: make test\n")


def write_a_makefile(place: Place) -> None:
    skip_without("make")
    (place.project / "Makefile").write_text("test:\n\t@python3 -c 'import src.parse'\n")


def write_a_new_file(place: Place) -> None:
    (place.project / "src" / "new.py").write_text("# changed\n")


@contextmanager
def a_database_server() -> Iterator[Mapping[str, str]]:
    skip_without("createdb")
    server = started(SYSTEM)
    try:
        yield {"PGHOST": str(server.folder), "PGUSER": "owner"}
    finally:
        server.end()


def prints(*lines: str) -> Callable[[Ran], bool]:
    return lambda ran: ran.out.splitlines() == list(lines) and not "".join(ran.errs).strip()


def write_typos(place: Place) -> None:
    (place.project / "parse.py").write_text("def parse(text):\n    teh = text\n")


def python(script: Replies, *lines: str) -> Play:
    """A program of the page about Python, and what it prints."""
    return Play(
        script,
        lambda ran: prints(*lines)(ran) and ran.file("README.md") == "teh parser\n",
        before=write_typos,
    )


def fix_typo(path: str) -> dict[str, Any]:
    return call("edit_file", path=path, old_text="teh", new_text="the")


RECIPES = {
    "A commit message from a diff": Play(
        [{"text": "Strip the text\n\nSpaces are no part of it."}],
        lambda ran: (
            ran.git("log", "-1", "--format=%B").startswith("Strip the text\n\nSpaces")
            and "+# changed" in ran.asked[0]
        ),
        before=write_a_new_file,
    ),
    "Why did this fail?": Play(
        [{"text": "src/parse.py:2 does not strip"}],
        lambda ran: (
            ran.out == "src/parse.py:2 does not strip\n" and "AssertionError" in ran.asked[0]
        ),
    ),
    "A review that can stop a pipeline": Play(
        [{"text": "FAIL\nsrc/parse.py:2 forgets to strip"}],
        lambda ran: ran.file("review.md").startswith("FAIL") and "+# changed" in ran.asked[0],
        exit_status=1,
    ),
    "Fix the tests, within a budget": Play(
        [
            call("shell", command="python3 -m unittest -q"),
            *FIXED[:-1],
            call("shell", command="python3 -m unittest -q"),
            FIXED[-1],
        ],
        lambda ran: "AssertionError" in ran.asked[1] and "strip()" in ran.file("src/parse.py"),
        before=price_the_model,
    ),
    "The same task for many files": Play(
        DOCSTRINGS,
        lambda ran: (
            '"""Parses."""' in ran.file("src/parse.py") and '"""Runs."""' in ran.file("src/run.py")
        ),
    ),
    "First a plan, then the work": Play(
        [{"text": "1. Rename it"}, *RENAMED],
        lambda ran: (
            "1. Rename it" in ran.out
            and "def parse_line(" in ran.file("src/parse.py")
            and "five points" in ran.asked[-1]
        ),
    ),
    "Resume after a time limit": Play(
        [
            {"match": "Continue where", "text": "It is up to date."},
            {"match": "Bring CHANGELOG", "text": "late", "delay_s": 30},
        ],
        lambda ran: "It is up to date." in ran.file("result.json"),
        environ={"LIMIT": "3"},
    ),
}

PROGRAMS = {
    "Ask a question": python(
        [call("read_file", path="parse.py"), {"text": "It parses."}, {"text": "It strips."}],
        "[read_file parse.py: 2 lines]",
        "It parses.",
        "success after 2 steps",
        "It strips.",
    ),
    "Your own tool": python(
        [
            call("open_tickets", component="parsing"),
            call("open_tickets", component="parser"),
            {"text": "Ticket 31."},
        ],
        "Ticket 31.",
    ),
    "Your own gate": python(
        [
            call("read_file", path="README.md"),
            fix_typo("README.md"),
            call("read_file", path="parse.py"),
            fix_typo("parse.py"),
            {"text": "README.md is fixed."},
        ],
        "refused: Edit this file?: parse.py",
        "incomplete README.md is fixed.",
        "Undid turn 1 (Fix the typo in README.md and parse.py)",
        "restored README.md",
        "`/redo` reapplies turn 1.",
    ),
    "A structured answer": python(
        [
            {"text": '[{"file": "parse.py", "line": 0, "why": "no return"}]'},
            {"text": '[{"file": "parse.py", "line": 2, "why": "no return"}]'},
        ],
        "parse.py:2: no return",
    ),
}

PYTHON = {"docs/python.md"}
"""Pages whose blocks of Python are whole programs."""

SCRIPTS = [
    {
        "match": "^Now add type hints",
        "calls": [
            {
                "name": "edit_file",
                "arguments": {"path": "src/parse.py", "old_text": "(text)", "new_text": "(t: str)"},
            }
        ],
    },
    {
        "match": "^(Read src/parse|List the files)",
        "calls": [{"name": "read_file", "arguments": {"path": "src/parse.py"}}],
    },
    {"match": "^Which files have no tests", "text": '{"files": ["src/parse.py"]}'},
    {"text": "That is how it is."},
]

OWN_MODEL = {"KODE_MODEL": "scripted-model"}
"""The one that the server says it has."""

PLAYS: dict[str, Play] = {
    "docs/scripts.md": Play(
        SCRIPTS,
        lambda ran: (
            ran.file("files.json").startswith('{"files"')
            and "That is how it is." in ran.file("answer.txt")
        ),
        before=price_the_model,
    ),
    "README.md": Play(environ=OWN_MODEL),
    "docs/install.md": Play(environ=OWN_MODEL),
    "docs/troubleshooting.md": Play(environ=OWN_MODEL),
    "docs/local-models.md": Play(
        environ={"LOCAL_URL": "SERVER", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    ),
    "docs/models.md": Play(environ=OWN_MODEL),
    "docs/goals.md": Play(before=write_a_makefile),
    "docs/memory.md": Play(before=write_instructions),
    "docs/team-memory.md": Play(around=a_database_server),
    "docs/fleet.md": Play(
        [
            {"match": "Fix the typos", **call("write_file", path="one", content="1")},
            {"match": "Add type hints", **call("write_file", path="two", content="2")},
            {"text": "Done."},
        ],
        lambda ran: (
            ran.git("log", "-2", "--format=%s").splitlines()
            == ["Add type hints to src/parse.py", "Fix the typos in README.md"]
        ),
    ),
    "docs/replay.md": Play(
        [
            call("read_file", path="src/parse.py"),
            call("edit_file", path="src/parse.py", old_text="(text)", new_text="(text: str)"),
            {"text": "Done."},
        ],
        lambda ran: ran.out.count("Identical: all 3 steps.") == 2,
    ),
    **{f"docs/recipes.md#{heading}": play for heading, play in RECIPES.items()},
    **{f"docs/python.md#{heading}": play for heading, play in PROGRAMS.items()},
}
"""By page, or by `PAGE#HEADING` for a section that is a story of its own."""

INSTALLS = "asks a package index; tests/e2e/test_wheel.py builds the wheel and installs it"
TERMINAL = (
    "opens the prompt, which needs a terminal; tests/e2e/test_repl_terminal.py opens it in one"
)
PLUG_INS = "tests/e2e/test_one_file_plugin.py and test_plugins_page.py do what the page says"

CANNOT_RUN: dict[str, str] = {
    "README.md: make run": INSTALLS,
    "README.md: uv tool install '.[all]'": INSTALLS,
    "README.md: kode": TERMINAL,
    "docs/container.md: docker build -t kode .": "needs Docker and a key",
    "docs/install.md: uv tool install '.[all]'": INSTALLS,
    "docs/install.md: python3 -m pip wheel . --no-deps -w dist": INSTALLS,
    "docs/plugins.md: kode --plugin standup.py": PLUG_INS,
    "docs/plugins.md: kode plugin new tally": PLUG_INS,
    "docs/repl.md: kode": TERMINAL,
    "docs/terminal-bench.md: uv tool install harbor": "needs Docker, a key and a package index",
    "docs/view.md: kode view": "serves until Ctrl-C; tests/plugins/view opens its pages",
    "docs/benchmarks.md: .venv/bin/python -m bench.first_request": (
        "measures for half a minute; tests/bench runs the benchmarks"
    ),
    "docs/fleet.md: kode fleet run tasks.jsonl --executor ray --jobs 32": (
        "needs Ray; tests/faults/test_fleet_kills.py runs fleets on it"
    ),
    "CONTRIBUTING.md: make run ARGS=demo": INSTALLS,
    "CONTRIBUTING.md: rm -rf dist && .venv/bin/python -m hatchling build": INSTALLS,
}
"""By the name of a block: why it cannot run here."""
