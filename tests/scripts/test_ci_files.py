"""The files by which other repositories use kode in CI: their steps do what the page says."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.needs import skip_without
from tests.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]


def run(
    program: list[str], project: Path, reply: Mapping[str, Any], **variables: str
) -> tuple[subprocess.CompletedProcess[str], ScriptedServer]:
    """A program in a project, with this kode and a model that says one thing."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with ScriptedServer([reply]) as server:
        server_of = {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "k"}
        environ = {**os.environ, "PATH": path, **server_of, **variables}
        done = subprocess.run(program, cwd=project, env=environ, capture_output=True, text=True)
    return done, server


@pytest.mark.slow
def test_the_action_passes_task_and_answer_as_data(project: Path, tmp_path: Path) -> None:
    skip_without("jq")
    step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][-1]
    output, summary = tmp_path / "output", tmp_path / "summary"
    (project / "a.diff").write_text("+ $(touch ran)\n")
    inputs = {"TASK": "Review `touch ran`", "CONTEXT": "a.diff", "MODE": "plan", "FLAGS": "--quiet"}
    done, server = run(
        ["bash", "-e", "-c", step["run"]],
        project,
        {"text": "Fine: $(touch ran)"},
        RUNNER_TEMP=str(tmp_path),
        GITHUB_OUTPUT=str(output),
        GITHUB_STEP_SUMMARY=str(summary),
        **inputs,
    )
    assert done.returncode == 0, done.stderr
    assert inputs.keys() == step["env"].keys()
    assert "+ $(touch ran)" in server.requests[0].body.decode()
    assert "status=success" in output.read_text().splitlines()
    assert "Fine: $(touch ran)" in output.read_text().splitlines()
    assert summary.read_text() == "Fine: $(touch ran)\n"
    assert not (project / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("verdict", "status"), [("PASS", 0), ("FAIL\na.py:1 is wrong", 1)])
def test_the_hook_fails_where_a_fault_is_found(project: Path, verdict: str, status: int) -> None:
    skip_without("git")
    for line in ("git init -q", "touch a.py", "git add a.py"):
        subprocess.run(line.split(), cwd=project, check=True)
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    done, server = run(shlex.split(hook["entry"]), project, {"text": verdict})
    assert (done.returncode, done.stdout) == (status, f"{verdict}\n"), done.stderr
    assert "a.py" in server.requests[0].body.decode()
