"""docs/scripts.md is true: its shell blocks run, its tables name what there is."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from kode import events
from kode.cli.output import EXIT_CODES, event_object, failure_object
from kode.errors import EXIT_NOT_STARTED, ConfigError
from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
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
    {"text": "That is how it is."},
]


@pytest.fixture
def project(place: Place) -> Path:
    """What the examples speak of: a repository with a change, a task file, a folder."""
    folder = place.project
    (folder / "sub").mkdir()
    (folder / "parse.py").write_text("def parse(text):\n    return text\n")
    (folder / "CHANGELOG.md").write_text("# 1.0\n")
    (folder / "task.txt").write_text("Explain parse.py")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-N", "parse.py"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=lambda block: block.split("\n")[0][:40])
def test_a_shell_block_runs_as_it_stands(place: Place, project: Path, block: str) -> None:
    if "jq " in block and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    with ScriptedServer(REPLIES, repeat_last=True) as server:
        place.url = server.openai_url
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=project,
            env={**place.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert server.count >= block.count("kode run")
    assert "Traceback" not in done.stderr


def test_the_page_has_examples() -> None:
    assert len(SHELL_BLOCKS) >= 8


def documented(heading: str) -> dict[str, str]:
    """The rows of the table after a heading: first cell → the rest."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `?(\w+)`? \| (.*) \|$", part, re.M))


def test_every_event_is_documented_with_its_fields() -> None:
    rows = documented("`--output-format stream-json`")
    for kind in get_args(events.Event):
        fields = {f.name for f in dataclasses.fields(kind)} - {"type"}
        name = kind.__dataclass_fields__["type"].default
        if name == "turn_ended":  # its content is the `result`
            continue
        told = set(re.findall(r"`(\w+)`", rows[name].partition(" | ")[2]))
        assert fields <= told, name


def test_the_fields_of_the_result_are_those_of_the_example() -> None:
    block = re.search(r"^```json\n(.*?)^```$", PAGE, re.M | re.S)
    assert block is not None
    shown = json.loads(block[1])
    assert list(shown) == list(json.loads(failure_object([], ConfigError("x"))))


def test_every_exit_code_is_documented() -> None:
    rows = documented("Exit codes")
    assert {int(code) for code in rows if code.isdigit()} == {
        *EXIT_CODES.values(),
        EXIT_NOT_STARTED,
    }


def test_events_print_with_their_type_first() -> None:
    assert next(iter(event_object(events.Notice(text="x")))) == "type"


def test_the_workflow_uses_flags_that_exist(place: Place) -> None:
    workflow = re.search(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    assert workflow is not None
    known = place.run("run", "--help").out
    for flag in re.findall(r"kode run.*?(?=>)", workflow[1], re.S)[0].split():
        if flag.startswith("--"):
            assert flag in known
