"""kode as an agent of Harbor: installed and run by Harbor's own base class, in a folder instead of
a container. The machine's package managers and uv are programs that only write down their call.
"""

import asyncio
import json
import os
import shutil
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it is fetched on import
pytest.importorskip("harbor", reason="needs Harbor (pip install harbor, with Python 3.12 or later)")

from harbor.agents.factory import AgentFactory
from harbor.agents.installed import base
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.task.config import MCPServerConfig
from harbor.models.trajectories import Trajectory
from harbor.models.trial.config import AgentConfig

from bench.harbor import KodeAgent
from kode.providers.errors import Endpoint, status_error
from tests.scripted_server import ScriptedServer

KODE = Path(sys.executable).parent / "kode"
PROGRAMS = ("bash", "sh", "mkdir", "cp", "cat", "tee", "chmod", "ln", "env")
AGENT = "bench.harbor:KodeAgent"
KEY = "sk-test-0123456789abcdef0123456789abcdef"


@dataclass
class Folder:
    """What an agent sees of a container: a shell, and files that are put there."""

    root: Path
    default_user: str | None = None
    ran: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def logs(self) -> Path:
        return self.root / "logs" / "agent"

    @property
    def calls(self) -> list[str]:
        """What was asked of package managers and uv, a line a call."""
        written = self.root / "calls"
        return written.read_text().splitlines() if written.exists() else []

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        self.ran.append((command, env or {}))
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", command.replace("/installed-agent", str(self.root / "installed"))),
            cwd=cwd or self.root / "project",
            env={"PATH": str(self.root / "bin"), "HOME": str(self.root / "home"), **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return ExecResult(
            stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0
        )

    async def upload_file(self, source: Path | str, target: str) -> None:
        place = Path(target.replace("/installed-agent", str(self.root / "installed")))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(Path(source).read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "container")
    for name in ("bin", "home", "project", "logs/agent"):
        (made.root / name).mkdir(parents=True)
    for program in PROGRAMS:
        (made.root / "bin" / program).symlink_to(str(shutil.which(program)))
    note = f'#!/bin/sh\necho "${{0##*/}} $*" >> {made.root}/calls\n'
    link = f"mkdir -p $HOME/.local/bin && ln -sf {KODE} $HOME/.local/bin/kode\n"
    for program, then in {"apt-get": "", "curl": "", "uv": link}.items():
        script = made.root / "bin" / program
        script.write_text(note + then)
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return made


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "kode-0.1.0-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        archive.writestr("kode/__init__.py", "")
    return path


def agent_in(folder: Folder, wheel: Path, model: str = "openai/gpt-x", **more: Any) -> KodeAgent:
    return KodeAgent(
        logs_dir=folder.logs,
        environment_logs_dir=folder.logs,
        model_name=model,
        wheel=str(wheel),
        **more,
    )


def run(agent: KodeAgent, folder: Folder, task: str = "Say hello") -> AgentContext:
    """What Harbor does in a trial: set up, run, read the logs, whatever the end."""
    context = AgentContext()

    async def trial() -> None:
        await agent.setup(folder)
        try:
            await agent.run(task, folder, context)
        finally:
            agent.populate_context_post_run(context)

    asyncio.run(trial())
    return context


def test_harbor_finds_the_agent_by_its_import_path(folder: Folder, wheel: Path) -> None:
    config = AgentConfig(
        name=AGENT,
        model_name="openai/gpt-x",
        kwargs={"wheel": str(wheel)},
    )

    agent = AgentFactory.create_agent_from_config(config, logs_dir=folder.logs)

    assert agent.name() == "kode"
    assert agent.import_path() == "bench.harbor.agent:KodeAgent"
    assert agent.to_agent_info().model_info.provider == "openai"


def test_installing_brings_the_wheel_and_spares_the_tasks_python(
    folder: Folder, wheel: Path
) -> None:
    agent = agent_in(folder, wheel)

    asyncio.run(agent.setup(folder))

    assert (folder.root / "installed" / wheel.name).read_bytes() == wheel.read_bytes()
    assert any(
        call.startswith("uv tool install --force --python 3.13") and wheel.name in call
        for call in folder.calls
    )
    assert not any(call.startswith("curl") for call in folder.calls)  # uv is there
    assert agent.version() == "0.1.0"


@pytest.mark.slow
@pytest.mark.parametrize("model", ["openai/gpt-x", "anthropic/claude-x"])
def test_a_run_reads_result_trajectory_tokens_and_cost(
    model: str, folder: Folder, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [
        {"calls": [{"name": "shell", "arguments": {"command": "echo made > made.txt"}}]},
        {"calls": [{"name": "shell", "arguments": {"command": "echo A=1 > .env; cat .env"}}]},
        {"text": "It is there.", "usage": {"input_tokens": 70, "output_tokens": 4}},
    ]
    instruction = "Make made.txt; it's 'quoted' & $HOME stays\n-- as it is"
    provider = model.partition("/")[0]
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", KEY)
    with ScriptedServer(script) as server:
        url = server.anthropic_url if provider == "anthropic" else server.openai_url
        context = run(agent_in(folder, wheel, model, base_url=url), folder, instruction)
        sent = server.requests[0]

    assert (folder.root / "project/made.txt").read_text() == "made\n"
    assert KEY in (sent.headers.get("authorization", "") + sent.headers.get("x-api-key", ""))
    assert sent.json["model"] == model.partition("/")[2]
    trajectory = Trajectory.model_validate_json((folder.logs / "trajectory.json").read_text())
    assert instruction in [step.message for step in trajectory.steps]
    assert trajectory.steps[-1].message == "It is there."
    assert trajectory.agent.version == "0.1.0"
    calls = [call for step in trajectory.steps for call in step.tool_calls or []]
    assert [call.function_name for call in calls] == ["shell", "shell"]
    assert context.n_output_tokens == trajectory.final_metrics.total_completion_tokens > 0
    assert context.n_input_tokens == trajectory.final_metrics.total_prompt_tokens > 70
    assert context.cost_usd is None  # of a model whose price nobody knows
    assert set(context.model_usage) == {model.partition("/")[2]}
    assert context.metadata["status"] == "success"
    assert context.metadata["denials"] == []  # the container is the wall
    assert context.metadata["session_id"] == trajectory.session_id


@pytest.mark.slow
def test_no_command_holds_the_task(
    folder: Folder, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer([{"text": "Hello"}]) as server:
        run(agent_in(folder, wheel, base_url=server.openai_url), folder)
        (asked,) = server.requests

    assert b"Say hello" in asked.body
    assert all("Say hello" not in command for command, _ in folder.ran)


@pytest.mark.slow
def test_no_command_or_log_holds_a_key(
    folder: Folder, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer([{"text": "Hello"}]) as server:
        run(agent_in(folder, wheel, base_url=server.openai_url), folder)

    assert all(KEY not in command for command, _ in folder.ran)
    left = [path for path in folder.logs.rglob("*") if path.is_file()]
    assert left
    assert all(KEY.encode() not in path.read_bytes() for path in left)


@pytest.mark.slow
def test_a_failed_run_keeps_its_kind_and_its_session(
    folder: Folder, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    context = AgentContext()
    with ScriptedServer([{"error": {"status": 401, "text": "no such key"}}]) as server:
        agent = agent_in(folder, wheel, base_url=server.openai_url)
        asyncio.run(agent.setup(folder))
        with pytest.raises(base.AgentAuthenticationError, match="accept the key"):
            asyncio.run(agent.run("Say hello", folder, context))
    agent.populate_context_post_run(context)

    assert context.metadata["status"] == "error"
    trajectory = Trajectory.model_validate_json((folder.logs / "trajectory.json").read_text())
    assert "Say hello" in [step.message for step in trajectory.steps]


def test_logs_of_a_kode_killed_early_are_no_fault(folder: Folder, wheel: Path) -> None:
    context = AgentContext()
    (folder.logs / "result.json").write_text('{"status": ')

    agent_in(folder, wheel).populate_context_post_run(context)

    assert context.is_empty()
    assert not (folder.logs / "trajectory.json").exists()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, "slow down", base.ApiRateLimitError),
        (402, "pay", base.ApiUsageLimitError),
        (500, "oops", base.ApiInternalServerError),
        (529, "busy", base.ApiOverloadedError),
        (413, "large", base.ContextWindowExceededError),
        (401, "who", base.AgentAuthenticationError),
        (403, "no", base.AgentAuthenticationError),
        (404, "The model gpt-x does not exist", base.ModelNotFoundError),
    ],
)
def test_harbor_recognises_refusals_of_kode(
    status: int, body: str, kind: type[Exception], folder: Folder, wheel: Path
) -> None:
    endpoint = Endpoint(model="gpt-x", base_url="https://host/v1", key_variable="OPENAI_API_KEY")
    error = status_error(status, {"error": {"message": body}}, {}, endpoint)
    result = {"status": "error", "error": str(error), "result": "rate limit! Connection refused"}
    ended = ExecResult(stdout=json.dumps(result), stderr="", return_code=1)

    classified = agent_in(folder, wheel)._classify_exec_error("kode run -", ended)

    assert type(classified) is kind


def connection_env(folder: Folder, wheel: Path, model: str, **more: Any) -> dict[str, str]:
    return dict(agent_in(folder, wheel, model, **more).model_connection.env)


def test_another_companys_model_is_asked_at_its_address(
    folder: Folder, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)

    env = connection_env(folder, wheel, "openrouter/qwen/qwen3")

    assert env == {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://openrouter.ai/api/v1"}


def test_a_key_never_goes_to_an_address_that_nobody_named(
    folder: Folder, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)

    with pytest.raises(ValueError, match="--base-url"):
        connection_env(folder, wheel, "gemini/gemini-3")
    named = connection_env(folder, wheel, "gemini/gemini-3", base_url="https://host/openai")
    assert named == {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://host/openai"}


def test_a_missing_key_is_said_before_a_container_is_built() -> None:
    config = AgentConfig(name=AGENT, model_name="anthropic/claude-x")

    with pytest.raises(ValueError, match="wheel"):
        AgentFactory.run_preflight(config)
    config.kwargs["wheel"] = __file__
    with pytest.raises(ValueError, match="is no wheel"):
        AgentFactory.run_preflight(config)


def test_a_missing_wheel_or_key_precedes_any_container(wheel: Path) -> None:
    config = AgentConfig(
        name=AGENT,
        model_name="anthropic/claude-x",
        kwargs={"wheel": str(wheel)},
    )

    with pytest.raises(ValueError, match="ANTHROPIC_API_KEY"):
        AgentFactory.run_preflight(config)


def test_a_tasks_servers_settings_and_skills_reach_kodes_home(
    folder: Folder, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_TOKEN", KEY)
    skills = tmp_path / "skills" / "greet"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text("---\nname: greet\n---\n")
    servers = [
        MCPServerConfig(name="tracker", transport="stdio", command="npx", args=["tracker"]),
        MCPServerConfig(
            name="docs",
            transport="http",
            url="https://host/mcp",
            headers={"Authorization": "Bearer ${DOCS_TOKEN}"},
        ),
    ]
    agent = agent_in(
        folder,
        wheel,
        mcp_servers=servers,
        skills_dir=str(skills.parent),
        config={"context": {"window": 128_000}},
    )

    asyncio.run(agent._prepare_home(folder, "go"))

    home = folder.logs / "kode"
    settings = json.loads((home / "config.json").read_text())
    assert settings["context"] == {"window": 128_000}
    assert settings["mcpServers"]["tracker"]["command"] == "npx"
    header = settings["mcpServers"]["docs"]["headers"]["Authorization"]
    assert agent.mcp_header_env.env[header.strip("${}")] == f"Bearer {KEY}"
    assert KEY not in (home / "config.json").read_text()
    assert (home / "config.json").stat().st_mode & 0o777 == 0o600
    assert (home / "skills/greet/SKILL.md").is_file()


def test_limits_and_a_restricted_network_become_flags(folder: Folder, wheel: Path) -> None:
    agent = agent_in(folder, wheel, max_steps=300, max_budget_usd=1.5)

    plain = agent._command()
    asyncio.run(agent.set_web_tools_disabled(True, folder))
    restricted = agent._command()

    assert "--max-steps 300 --max-budget-usd 1.5" in plain
    assert "--deny" not in plain
    assert "--deny fetch" in restricted
