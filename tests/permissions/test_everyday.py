"""Everyday lines of development: in the sandbox nothing asks but what leaves it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.permissions.decide import decide_call
from kode.permissions.rules import Rules
from kode.permissions.shell import judge
from kode.tool import Decision
from kode.tools.shell import shell
from tests.permissions.shell.lines import WHERE
from tests.tables import for_each
from tests.workplaces import make_call, workplace

DATA = Path(__file__).parent / "data" / "everyday.jsonl"
LINES: list[dict[str, Any]] = [json.loads(row) for row in DATA.read_text("utf-8").splitlines()]
STAY = [row["command"] for row in LINES if not row["leaves"]]


def decided(command: str, mode: str) -> Decision:
    place = workplace(Path(WHERE.cwd))
    return decide_call(
        make_call(Rules(), mode, shell, {"command": command}, place, sandbox="layered")
    )


@for_each("row", LINES)
def test_a_line_leaves_for_what_is_said_of_it(row):
    leaves = [part.leaves for part in judge(row["command"], WHERE).parts if part.leaves]
    assert leaves[:1] == ([row["leaves"]] if row["leaves"] else [])


@for_each("mode", ["ask", "auto-edit"])
@for_each("row", LINES)
def test_commands_that_stay_are_sandboxed_and_others_asked_about(row, mode):
    decision = decided(row["command"], mode)
    assert (decision.run_in == "sandbox") is not bool(row["leaves"])
    assert decision.outcome == ("ask" if row["leaves"] else "allow")


def test_few_of_the_everyday_lines_are_asked_about():
    asked = [row for row in LINES if decided(row["command"], "auto-edit").outcome != "allow"]
    assert len([row for row in asked if row["from"] == "survey"]) <= 5
    assert len(asked) / len(LINES) <= 0.15


@for_each("row", [row for row in LINES if row["leaves"]])
def test_a_refusal_names_one_part_and_one_way(row):
    decision = decided(row["command"], "auto-edit")
    assert decision.consent.decisive.count("`") == 2
    assert decision.consent.instead
    assert "\n" not in decision.consent.decisive + decision.consent.instead


@for_each("command", STAY)
def test_sandboxed_commands_bring_no_text_from_outside(command):
    assert not decided(command, "auto-edit").untrusted


@pytest.mark.parametrize("network", [False, True])
def test_the_loopback_of_the_machine_is_outside_text(network: bool) -> None:
    line = "curl -s http://127.0.0.1:8000/page"
    place = workplace(Path(WHERE.cwd))
    call = make_call(Rules(), "auto-edit", shell, {"command": line}, place, sandbox="layered")
    decision = decide_call(replace(call, sandbox_network=network))
    assert (decision.run_in == "sandbox", bool(decision.untrusted)) == (True, network)
