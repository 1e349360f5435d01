"""What tells agents what to do is not changed unseen once text from outside was read."""

from pathlib import Path

import pytest

from kode.permissions.decide import decide_call
from kode.permissions.rules import Rules, parse_all
from kode.tools.builtin import BUILTIN
from tests.workplaces import make_call, workplace

TOOLS = {tool.name: tool for tool in BUILTIN}
PROJECT = Path("/home/user/project")


def outcome(tool, arguments, *, taint, allow=(), mode="auto-edit"):
    return decide_call(
        make_call(
            Rules(allow=parse_all(allow)),
            mode,
            TOOLS[tool],
            arguments,
            workplace(PROJECT),
            taint=taint,
        )
    ).outcome


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "AGENTS.md"}),
        ("edit_file", {"path": "src/agents.md"}),
        ("write_file", {"path": ".github/copilot-instructions.md"}),
    ],
)
def test_a_file_of_orders_is_free_until_outside_text(tool, arguments):
    assert outcome(tool, arguments, taint=True) == "ask"
    assert outcome(tool, arguments, taint=False) == "allow"


def test_other_files_stay_free():
    assert outcome("write_file", {"path": "README.md"}, taint=True) == "allow"


def test_an_allow_rule_covers_it():
    allow = ["edit(AGENTS.md)"]
    assert outcome("write_file", {"path": "AGENTS.md"}, taint=True, allow=allow) == "allow"


def test_kodes_project_settings_are_asked_about_in_any_session():
    assert outcome("write_file", {"path": "kode.json"}, taint=False) == "ask"
    assert outcome("shell", {"command": "echo '{}' > kode.json"}, taint=False) == "ask"
