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
    assert (decision.outcome, decision.held) == ("allow", True)


@pytest.mark.parametrize(
    ("command", "mode", "allow"),
    [
        ("ls", "ask", []),
        ("mkdir x", "auto-edit", []),
        ("python x.py", "full", []),
        ("python x.py", "ask", ["shell(python:*)"]),
        ("curl http://x.test", "ask", ["shell(curl:*)"]),
    ],
)
def test_what_is_allowed_anyway_is_not_held(
    tmp_path: Path, command: str, mode: PermissionMode, allow: list[str]
) -> None:
    decision = decided(tmp_path, command, mode, allow=allow)
    assert (decision.outcome, decision.held) == ("allow", False)
