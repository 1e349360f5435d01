"""A project to judge command lines for, and the lines kept as data."""

import json
from pathlib import Path
from typing import Any

from kode.permissions.shell.judge import ShellLine, judge_line
from tests.workplaces import ground

PROJECT = Path("/home/user/project")
WHERE = ground(PROJECT, PROJECT.parent)


def judged(command: str) -> ShellLine:
    return judge_line(command, WHERE)


def rows(name: str) -> list[dict[str, Any]]:
    path = Path(__file__).parent / "data" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def commands(name: str) -> list[str]:
    return [row["cmd"] for row in rows(name)]
