"""docs/scripts.md is true: its shell blocks run, its tables name what there is."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import yaml

from kode import events
from kode.cli.screen.output import event_object, failure_object
from kode.errors import EXIT_NOT_STARTED, ConfigError
from tests.e2e.command import Place
from tests.needs import skip_without
from tests.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
PAGE = (ROOT / "docs" / "scripts.md").read_text(encoding="utf-8")
SHELL_BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)
REPLIES = [
    {
        "match": "type hints",
        "calls": [
            {
                "name": "edit_file",
                "arguments": {"path": "parse.py", "old_text": "(text)", "new_text": "(text: str)"},
            }
        ],
    },
    {
        "match": "Read parse|List the files",
        "calls": [{"name": "read_file", "arguments": {"path": "parse.py"}}],
    },
    {"match": "have no tests", "text": '{"files": ["parse.py"]}'},
    {"text": "That is how it is."},
]


@pytest.fixture
def project(place: Place) -> Path:
    """What the examples speak of: a repository with a change, a task file, a folder."""
    folder = place.project
    skip_without("git")
    (folder / "sub").mkdir()
    (folder / "parse.py").write_text("def parse(text):\n    return text\n")
    (folder / "CHANGELOG.md").write_text("# 1.0\n")
    (folder / "task.txt").write_text("Explain parse.py")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-N", "parse.py"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=lambda block: block.split("\n")[0][:40])
def test_a_shell_block_runs_as_it_stands(place: Place, project: Path, block: str) -> None:
    if "jq " in block:
        skip_without("jq")
    with ScriptedServer(REPLIES, repeat_last=True) as server:
        place.url = server.openai_url
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=project,
            env={**place.environ, "PATH": PATH},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert server.count >= block.count("kode run") - block.count("--replay")
    assert "Traceback" not in done.stderr


def test_the_page_has_examples() -> None:
    assert len(SHELL_BLOCKS) >= 8


def documented(heading: str) -> dict[str, str]:
    """The rows of the table after a heading: first cell → the rest."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `?(\w+)`? \| (.*) \|$", part, re.M))


def test_the_documented_events_and_fields_are_those_there_are() -> None:
    rows = documented("`--output-format stream-json`")
    told = {
        name: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row.partition(" | ")[2])))
        for name, row in rows.items()
        if name != "type"
    }
    there_are = {
        kind.__dataclass_fields__["type"].default: {
            f.name for f in dataclasses.fields(kind) if f.name != "type"
        }
        for kind in get_args(events.Event)
    }
    # What ends a turn is printed as the `result`.
    del there_are["turn_ended"]
    assert told.pop("result") == {"json"}
    assert told == there_are


def test_every_value_an_event_may_have_is_documented() -> None:
    rows = documented("`--output-format stream-json`")
    for kind in get_args(events.Event):
        name = kind.__dataclass_fields__["type"].default
        for field, hint in get_type_hints(kind).items():
            allowed = {v for v in get_args(hint) if isinstance(v, str)} - {name}
            if field != "status" and name in rows:
                assert allowed <= set(re.findall(r"`(\w+)`", rows[name])), (name, field)


def test_printed_json_has_the_documented_fields(place: Place, project: Path) -> None:
    rows = documented("`--output-format stream-json`")
    with ScriptedServer(REPLIES, repeat_last=True) as server:
        place.url = server.openai_url
        done = place.run("run", "List the files", "--output-format", "stream-json")

    assert done.code == 0
    assert {"session_started", "replied", "tool_finished", "result"} <= {
        line["type"] for line in done.lines
    }
    for line in done.lines[:-1]:
        row = re.sub(r"\([^)]*\)", "", rows[line["type"]].partition(" | ")[2])
        assert set(line) - {"type"} == set(re.findall(r"`(\w+)`", row)), line


def test_the_fields_of_the_result_are_those_of_the_example() -> None:
    block = re.search(r"^```json\n(.*?)^```$", PAGE, re.M | re.S)
    assert block is not None
    shown = json.loads(block[1])
    assert list(shown) == list(json.loads(failure_object([], ConfigError("x"))))


def test_every_exit_code_is_documented() -> None:
    rows = documented("Exit codes")
    assert {int(code) for code in rows if code.isdigit()} == {
        *events.EXIT_CODES.values(),
        EXIT_NOT_STARTED,
    }


def test_events_print_with_their_type_first() -> None:
    assert next(iter(event_object(events.Notice(text="x")))) == "type"


def test_the_workflow_is_one_and_its_review_runs(place: Place, project: Path) -> None:
    text = re.search(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    assert text is not None
    workflow = yaml.safe_load(text[1])
    [job] = workflow["jobs"].values()
    [review] = [step for step in job["steps"] if step.get("name") == "Review"]
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-qam", "base"], cwd=project, check=True)
    (project / "parse.py").write_text("def parse(text):\n    return text.strip()\n")
    subprocess.run([*git, "commit", "-qam", "change"], cwd=project, check=True)
    (place.folder / "step.sh").write_text(review["run"])

    with ScriptedServer([{"text": "parse.py:2: strips too much"}]) as server:
        place.url = server.openai_url
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(place.folder / "step.sh")],
            cwd=project,
            env={**place.environ, "PATH": PATH, "BASE": "HEAD~1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        asked = server.requests[0].body.decode()

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (project / "review.md").read_text() == "parse.py:2: strips too much\n"
    assert "return text.strip()" in asked
    assert set(review["env"]) == {"ANTHROPIC_API_KEY", "KODE_HOME", "BASE"}
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
