"""What runs unasked because a sandbox holds it is marked as such: it gets no network there."""

from pathlib import Path
from typing import Any

import pytest

from kode.contracts import PermissionMode
from kode.permissions.decide import decide
from kode.permissions.decision import Decision
from kode.permissions.rules import Rules, parse_all
from kode.tools.shell import shell


def decided(
    tmp_path: Path, command: str, mode: PermissionMode = "ask", **rules: list[str]
) -> Decision:
    parsed: dict[str, Any] = {name: parse_all(texts) for name, texts in rules.items()}
    return decide(
        Rules(**parsed),
        mode,
        shell,
        {"command": command},
        cwd=tmp_path,
        roots=(tmp_path,),
        project=tmp_path,
        user_home=Path("/home/me"),
        contained=True,
    )


@pytest.mark.parametrize("command", ["python x.py", "mkdir x", "pytest -q", "ls && ./run.sh"])
def test_what_only_the_sandbox_allows_is_held(tmp_path: Path, command: str) -> None:
    decision = decided(tmp_path, command)
    assert (decision.outcome, decision.network) == ("allow", False)


@pytest.mark.parametrize(
    ("command", "mode", "allow"),
    [
        ("ls", "ask", []),
        ("mkdir x", "auto-edit", []),
        ("python x.py", "full", []),
        ("curl http://x.test", "full", []),
        ("python x.py", "ask", ["shell(python:*)"]),
    ],
)
def test_what_is_allowed_anyway_has_the_network_that_the_settings_give(
    tmp_path: Path, command: str, mode: PermissionMode, allow: list[str]
) -> None:
    decision = decided(tmp_path, command, mode, allow=allow)
    assert (decision.outcome, decision.network) == ("allow", None)


@pytest.mark.parametrize("kind", ["allow", "approved"])
@pytest.mark.parametrize(
    ("command", "network"),
    [
        ("curl http://x.test", True),
        ("curl http://x.test | head", True),
        ("curl http://x.test > page.html", True),
        ("mkdir x && curl http://x.test > x/y", False),
        ("curl http://x.test; python x.py", False),
    ],
)
def test_a_rule_for_a_command_that_needs_the_network_gives_it(
    tmp_path: Path, command: str, network: bool, kind: str
) -> None:
    decision = decided(tmp_path, command, **{kind: ["shell(curl:*)"]})
    assert (decision.outcome, decision.network) == ("allow", network)


def test_what_the_mode_allows_beside_it_has_no_network_by_its_rule(tmp_path: Path) -> None:
    rule = ["shell(curl:*)"]
    assert decided(tmp_path, "curl http://x.test; mkdir x", "auto-edit", allow=rule).network is True
    assert decided(tmp_path, "curl http://x.test; pytest", "auto-edit", allow=rule).network is False


@pytest.mark.parametrize(
    "command",
    ["curl http://x.test", "git push", "kubectl get pods", "pip install x && pytest"],
)
def test_a_question_about_other_machines_says_that_a_yes_gives_the_network(
    tmp_path: Path, command: str
) -> None:
    decision = decided(tmp_path, command)
    assert (decision.outcome, decision.network) == ("ask", True)
    assert "A yes lets it use the network" in decision.reason


@pytest.mark.parametrize("command", ["rm -rf src", "sudo ls", "cat .env"])
def test_a_yes_to_something_else_is_no_yes_to_the_network(tmp_path: Path, command: str) -> None:
    decision = decided(tmp_path, command)
    assert (decision.outcome, decision.network) == ("ask", None)
    assert "network" not in decision.reason
