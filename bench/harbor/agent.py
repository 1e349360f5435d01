"""kode as an agent of Harbor, the framework that runs Terminal-Bench and similar benchmarks:
installs and runs kode in a task's container, and reads its result.

`harbor run --agent bench.harbor:KodeAgent` imports it; see docs/terminal-bench.md. Harbor's
environment lacks kode's dependencies: import nothing here but Harbor and what reads a session.
That needs none of them.
"""

import contextlib
import json
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from harbor.agents.agent_auth_resolution import (
    SKIP_MODEL_PARSING_PROVIDER,
    ModelConnectionSpec,
    ResolvedModelConnection,
    require_api_key_for_default_endpoint,
)
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed import base
from harbor.agents.installed.base import BaseInstalledAgent, ErrorPattern, with_prompt_template
from harbor.agents.options import Cli, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext, ModelUsage
from harbor.models.model_api_format import ModelApiFormat
from harbor.models.trajectories import Trajectory
from pydantic import Field, field_validator

from bench.harbor.trajectory import trajectory_of
from kode import paths
from kode.errors import KodeError
from kode.session import index, spending
from kode.session.transcript import Transcript

PYTHON = "3.13"
"""Fetched by uv: a Python in the container belongs to the task."""

ON_PATH = 'export PATH="$HOME/.local/bin:$PATH"'

UNASKED = ("--allow", "shell", "--allow", "read", "--allow", "edit")
"""Mode `full` still asks about files with keys. In a container they are the task's own."""

RESULT = "result.json"
TASK = "task.txt"
REPORTED = (
    "status",
    "error",
    "steps",
    "session_id",
    "files_changed",
    "checks",
    "checked",
    "denials",
)
"""The fields of kode's result that go into a trial's metadata; docs/scripts.md explains each."""


class KodeOptions(InstalledAgentOptions):
    wheel: str = Field(
        description="kode's wheel on this machine; in a checkout, "
        "`python3 -m pip wheel . --no-deps -w dist` builds one."
    )
    max_steps: Annotated[int | None, Cli("--max-steps")] = Field(
        default=None, gt=0, description="Model requests of a task; kode's own limit without it."
    )
    max_budget_usd: Annotated[float | None, Cli("--max-budget-usd")] = Field(
        default=None, gt=0, description="Spending limit of a task."
    )

    @field_validator("wheel")
    @classmethod
    def _is_there(cls, wheel: str) -> str:
        if Path(wheel).suffix != ".whl" or not Path(wheel).is_file():
            raise ValueError(f"{wheel} is no wheel. Build one, and name its file.")
        return wheel

    @field_validator("version")
    @classmethod
    def _is_the_wheels(cls, version: str | None) -> str | None:
        if version is not None:
            raise ValueError("The version is that of the wheel: leave it out.")
        return version


class KodeAgent(BaseInstalledAgent):
    """Runs one `kode run` per task, in its own container and so without asking or a sandbox."""

    capabilities = AgentCapabilities(
        atif=True,
        base_url=True,
        mcp_http_headers=True,
        mcp_servers=True,
        native_config=True,
        native_web_tools=True,
        skills=True,
    )
    options_model = KodeOptions
    options: KodeOptions

    MODEL_CONNECTION = ModelConnectionSpec(
        supported_api_formats=[
            ModelApiFormat.OPENAI_CHAT_COMPLETIONS,
            ModelApiFormat.ANTHROPIC_MESSAGES,
        ],
        default_api_format_by_provider={
            "anthropic": ModelApiFormat.ANTHROPIC_MESSAGES,
            "default": ModelApiFormat.OPENAI_CHAT_COMPLETIONS,
        },
        api_key_destination_names={
            ModelApiFormat.OPENAI_CHAT_COMPLETIONS: "OPENAI_API_KEY",
            ModelApiFormat.ANTHROPIC_MESSAGES: "ANTHROPIC_API_KEY",
        },
        base_url_destination_names={
            ModelApiFormat.OPENAI_CHAT_COMPLETIONS: "OPENAI_BASE_URL",
            ModelApiFormat.ANTHROPIC_MESSAGES: "ANTHROPIC_BASE_URL",
        },
    )

    ERROR_PATTERNS = [  # noqa: RUF012 - Harbor declares it so
        *BaseInstalledAgent.ERROR_PATTERNS,
        ErrorPattern(r"limits the rate of requests", base.ApiRateLimitError),
        ErrorPattern(r"no credit or quota left", base.ApiUsageLimitError),
        ErrorPattern(r"failed \(HTTP 5", base.ApiInternalServerError),
        ErrorPattern(r"is overloaded \(HTTP", base.ApiOverloadedError),
        ErrorPattern(r"Context too long for", base.ContextWindowExceededError),
        ErrorPattern(r"There is no key for", base.AgentAuthenticationError),
        ErrorPattern(
            r"rejected the API key|does not allow this key", base.AgentAuthenticationError
        ),
        ErrorPattern(r"does not know the model", base.ModelNotFoundError),
        ErrorPattern(r"No server answers at", base.NetworkConnectionError),
    ]

    @staticmethod
    def name() -> str:
        return "kode"

    @classmethod
    def check_model_credentials(cls, connection: ResolvedModelConnection, **_given: object) -> None:
        require_api_key_for_default_endpoint(connection, cls.name())

    @classmethod
    def resolve_model_connection_config(
        cls, model_name: str | None, resolve_env: Any, **options: Any
    ) -> ResolvedModelConnection:
        """Where kode sends requests, and with which key.

        Raises: ValueError if a key would go to another company than its own: kode knows the
        addresses of OpenAI and Anthropic only.
        """
        skips = options.get("skip_model_parsing", False)
        provider = (
            cls._parse_model_name_for_connection(model_name, skip_model_parsing=skips)[0]
            if model_name
            else None
        )
        own = provider in ("anthropic", "openai", SKIP_MODEL_PARSING_PROVIDER, None)
        options["spec"] = replace(
            options.get("spec") or cls.MODEL_CONNECTION, inject_default_base_url=not own
        )
        connection = super().resolve_model_connection_config(model_name, resolve_env, **options)
        if not own and not connection.candidate_base_url:
            raise ValueError(
                f"kode does not know where {provider} answers in the format "
                f"{connection.model_api_format}. Name the address with --base-url."
            )
        return connection

    @property
    def _home(self) -> PurePosixPath:
        """kode's folder, below the logs, so that its files survive a time-out."""
        return PurePosixPath(self.environment_logs_dir / "kode")

    @property
    def remote_session_logs_dir(self) -> PurePosixPath:
        return self._home / "sessions"

    def get_version_command(self) -> str:
        return f"{ON_PATH}; kode --version"

    def parse_version(self, stdout: str) -> str:
        return stdout.split()[-1]

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("curl", "bash", "ca_certificates"))
        wheel = Path(self.options.wheel)
        target = f"/installed-agent/{wheel.name}"
        await self._upload_agent_owned_file(environment, wheel, target)
        await self.exec_as_agent(
            environment,
            f"{ON_PATH}; "
            "{ command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; } && "
            f"uv tool install --force --python {PYTHON} {shlex.quote(f'{target}[all]')} "
            "&& kode --version",
        )

    @with_prompt_template
    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        await self._prepare_home(environment, instruction)
        env = {
            **self.model_connection.env,
            **self.mcp_header_env.env,
            "KODE_HOME": str(self._home),
        }
        await self.exec_as_agent(environment, self._command(), env=env)

    async def _put(self, environment: BaseEnvironment, text: str, name: str) -> None:
        """Writes a file into kode's folder: command lines can be listed by others."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            target = str(self._home / name)
            await self._upload_agent_owned_file(environment, Path(file.name), target)
        await self.exec_as_agent(environment, f"chmod 600 {shlex.quote(target)}")

    async def _prepare_home(self, environment: BaseEnvironment, task: str) -> None:
        """Creates kode's folder, with its settings, its skills and the task."""
        home = shlex.quote(str(self._home))
        commands = [f"mkdir -p -m 700 {home}"]
        if self.skills_dir:
            skills = shlex.quote(self.skills_dir)
            commands.append(f"mkdir -p {home}/skills && cp -R {skills}/. {home}/skills/")
        await self.exec_as_agent(environment, " && ".join(commands))
        if settings := self._settings():
            await self._put(environment, json.dumps(settings), "config.json")
        await self._put(environment, task, TASK)

    def _settings(self) -> dict[str, Any]:
        """kode's settings, with the task's servers. Raises: ValueError."""
        source = self.config_source
        settings = json.loads(source.read_text()) if isinstance(source, Path) else source or {}
        servers = {server.name: self._server(server) for server in self.mcp_servers}
        if servers:
            settings = {**settings, "mcpServers": {**settings.get("mcpServers", {}), **servers}}
        return dict(settings)

    def _server(self, server: Any) -> dict[str, Any]:
        if server.transport == "stdio":
            return {
                "command": server.command,
                "args": server.args,
                "write": True,
                "network": True,
            }
        if server.transport == "sse":
            raise ValueError(
                f"kode does not speak SSE, as the MCP server {server.name} does. "
                "Use streamable-http or stdio."
            )
        variables = self.mcp_header_env.refs.get(server.name, {})
        headers = {name: f"${{{variable}}}" for name, variable in variables.items()}
        return {"type": "http", "url": server.url, "headers": headers}

    def _command(self) -> str:
        """`kode run` with the task on stdin; its result goes to a file, and to Harbor."""
        if not self.model_name:
            raise ValueError("kode needs a model. Name one with --model PROVIDER/NAME.")
        connection = self.model_connection
        messages = connection.model_api_format == ModelApiFormat.ANTHROPIC_MESSAGES
        flags = [
            *("--provider", "anthropic" if messages else "openai"),
            *("--model", connection.model_id or self.model_name),
            *("--permission-mode", "full", *UNASKED),
            *("--no-memory", "--quiet", "--output-format", "json"),
        ]
        if self.options.disable_web_search:
            flags += ["--deny", "fetch"]
        result = shlex.quote(str(self.environment_logs_dir / RESULT))
        return (
            f"{ON_PATH}; kode run - {shlex.join(flags)} {self.build_cli_flags()} "
            f"< {shlex.quote(str(self._home / TASK))} | tee {result}"
        )

    def _classify_exec_error(self, command: str, result: Any) -> base.NonZeroAgentExitCodeError:
        """Judges only by kode's final result: a model's words can look like any error."""
        if error := _result(result.stdout or "").get("error"):
            result = result.model_copy(update={"stdout": None, "stderr": f"kode: {error}"})
        return super()._classify_exec_error(command, result)

    def convert_trajectory(self, logs_dir: Path) -> Trajectory | None:
        """The trajectory of the newest session below `logs_dir`; None if there is none yet."""
        transcript = _newest_session(logs_dir)
        if transcript is None:
            return None
        return Trajectory.model_validate(trajectory_of(transcript, self._version or "unknown"))

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Reads what kode left in the logs; works even if it was killed or wrote nothing."""
        home = self.logs_dir / self._home.name
        try:
            transcript = _newest_session(home)
            trajectory = self.convert_trajectory(home)
        except KodeError as error:
            self.logger.warning("The session of kode cannot be read: %s", error)
            return
        if transcript is not None:
            by_model = spending.Spending.of(transcript.entries)
            spent = by_model.total
            context.n_input_tokens = spent.usage.input_tokens
            context.n_cache_tokens = spent.usage.cached_tokens
            context.n_output_tokens = spent.usage.output_tokens
            context.cost_usd = None if spent.unpriced else spent.cost_usd
            context.model_usage = {
                model: ModelUsage(
                    n_input_tokens=one.usage.input_tokens,
                    n_cache_tokens=one.usage.cached_tokens,
                    n_output_tokens=one.usage.output_tokens,
                    cost_usd=None if one.unpriced else one.cost_usd,
                )
                for model, one in by_model.items()
            }
        if trajectory is not None:
            text = json.dumps(trajectory.to_json_dict(), indent=2)
            (self.logs_dir / "trajectory.json").write_text(text)
        with contextlib.suppress(OSError):  # killed before it was written
            result = _result((self.logs_dir / RESULT).read_text())
            context.metadata = {name: result[name] for name in REPORTED if name in result} or None


def _newest_session(home: Path) -> Transcript | None:
    """The newest session with messages; None if there is none.

    Raises: SessionError, StorageError.
    """
    newest = max((name for _, name in index.files(home)), default=None)
    if newest is None:
        return None
    transcript = Transcript.read(paths.session_file(home, newest))
    return transcript if any(transcript.messages) else None


def _result(text: str) -> dict[str, Any]:
    """The result that `kode run` printed at its end; {} if it did not get there."""
    try:
        result = json.loads(text)
    except ValueError:
        return {}
    return result if isinstance(result, dict) else {}
