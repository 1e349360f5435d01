"""What is understood of other agents' settings files."""

import json
from pathlib import Path

import pytest

from kode.config.files import ForeignSettings, decode, parse_settings
from kode.errors import ConfigError
from tests.tables import for_each


def read(text: str) -> ForeignSettings:
    return parse_settings(decode(text, Path("settings.json")), Path("settings.json"))


GIVEN = {
    "Bash(git push:*)": "shell(git push:*)",
    "Bash(npm run test *)": "shell(npm run test:*)",
    "Bash": "shell",
    "Read(./.env)": "read(.env)",
    "Read(//etc/shadow)": "read(/etc/shadow)",
    "Read(/secrets/**)": "read(secrets/**)",
    "Read(~/.zshrc)": "read(~/.zshrc)",
    "Write(src/**)": "edit(src/**)",
    "WebFetch(domain:example.org)": "fetch(example.org)",
    "mcp__github": "mcp(github)",
    "mcp__github__get_issue": "mcp(github:get_issue)",
}


@for_each(("rule", "own"), GIVEN.items())
def test_rules_of_claude_code_become_kodes(rule: str, own: str) -> None:
    said = read(json.dumps({"permissions": {"deny": [rule]}}))

    assert said.deny == (own,)
    assert not said.unused


@pytest.mark.parametrize("rule", ["Bash(git * main)", "Agent(Explore)", 7, "", "(x)"])
def test_rules_that_cannot_be_expressed_are_named(rule: object) -> None:
    said = read(json.dumps({"permissions": {"deny": [rule], "ask": ["Bash"]}}))

    assert (said.deny, said.ask) == ((), ("shell",))
    assert list(said.unused) == [f"permissions.deny: {rule}"]


def test_all_that_is_not_used_is_named() -> None:
    said = read(
        json.dumps(
            {
                "hooks": {},
                "model": "opus",
                "permissions": {"defaultMode": "plan"},
                "new": 1,
            }
        )
    )

    assert set(said.unused) == {"model", "permissions.defaultMode", "new"}


@pytest.mark.parametrize("text", ["[1]", "{", '{"permissions": 1, "env": [1]}', "null", ""])
def test_damaged_settings_are_a_fault_or_nothing(text: str) -> None:
    try:
        said = read(text)
    except ConfigError:
        return
    assert (said.deny, said.ask) == ((), ())
