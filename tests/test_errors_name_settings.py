"""Errors carry the setting to change: its key, and what set it. The words come from that value."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kode.cli.main import main
from kode.config.load import load_config
from kode.conversation import Settings, open_conversation
from kode.errors import EXIT_NOT_STARTED, KodeError, ServerError, Setting
from kode.events import no_emit
from kode.extensions.mcp_config import ServerEntry
from kode.extensions.mcp_server import McpServer
from tests.scripted_server import ScriptedServer
from tests.tables import for_each

KEY = "sk-old-0123456789abcdef"
REFUSED = {"error": {"status": 401, "text": "Incorrect API key provided."}}
UNKNOWN = {"error": {"status": 404, "text": "No.", "code": "model_not_found"}}
GONE = "http://127.0.0.1:9/v1"


@dataclass
class Case:
    """A person's settings: the file's lines, variables and flags; and which is at fault."""

    key: str
    source: str
    own: dict[str, Any] = field(default_factory=dict)
    project: dict[str, Any] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)
    reply: dict[str, Any] = field(default_factory=lambda: {"text": "Yes."})


CASES = [
    # A key of the config wins over the variable.
    Case("api_key", "OWN:2", {"api_key": KEY}, reply=REFUSED),
    Case("providers.openai.api_key", "OWN:4", {"providers": {"openai": {"api_key": KEY}}},
         reply=REFUSED),
    Case("providers.openai.api_key", "OPENAI_API_KEY", reply=REFUSED),
    Case("model", "PROJECT:2", project={"model": "gone"}, reply=UNKNOWN),
    Case("base_url", "--base-url", flags={"base_url": GONE}),
    Case("providers.other.base_url", "OWN:5",
         {"provider": "other", "providers": {"other": {"base_url": "host"}}}),
    # A budget for a model without a price.
    Case("max_budget_usd", "OWN:2", {"max_budget_usd": 1}, flags={"model": "unheard-of"}),
    Case("shared_budget", "--shared-budget",
         flags={"model": "unheard-of", "shared_budget": "budget.json"}),
    # Values and names that are none.
    Case("max_steps", "OWN:2", {"max_steps": 0}),
    Case("permissions.deny", "OWN:3", {"permissions": {"deny": ["shell("]}}),
    Case("permissions.allow", "--allow", flags={"permissions.allow": ("shell(",)}),
    Case("memory.system", "KODE_MEMORY", environ={"KODE_MEMORY": "palace"}),
    Case("script", "--script", flags={"provider": "scripted", "script": "/gone.json"}),
    Case("providers.anthropic.api_key", "ANTHROPIC_API_KEY",
         {"providers": {"anthropic": {}}, "small_model": "anthropic/claude-haiku-5-5"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key} {case.source}")
async def test_an_error_has_the_setting_that_was_used(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "kode-home", tmp_path / "project"
    files = {"OWN": home / "config.json", "PROJECT": project / "kode.json"}
    for file, values in zip(files.values(), (case.own, case.project), strict=True):
        file.parent.mkdir()
        if values:
            file.write_text(json.dumps(values, indent=2))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-variable-0123")
    for variable, value in case.environ.items():
        monkeypatch.setenv(variable, value)
    flags = {"retry.max_attempts": 1, **case.flags}

    found = None
    try:
        with ScriptedServer([case.reply]) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
            loaded = load_config(home, project, environ=os.environ, flags=flags)
            talk = await open_conversation(Settings(loaded, emit=no_emit), cwd=project)
            found = (await talk.turn("Hello")).setting
            await talk.close(interrupted=True)
    except KodeError as error:
        found = error.setting

    name_of_file, colon, line = case.source.partition(":")
    source = f"{files.get(name_of_file, name_of_file)}{colon}{line}"
    assert found == Setting(case.key, source.replace(str(tmp_path), "~"))


@for_each("flag", ["--json-schema", "--mcp-config", "--settings", "--script"])
def test_a_flag_that_names_no_file_is_named(
    flag: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-variable-0123")
    monkeypatch.chdir(tmp_path)

    code = main(["run", "x", "--output-format", "json", flag, "gone.json"])

    result = json.loads(capsys.readouterr().out)
    assert code == EXIT_NOT_STARTED
    assert result["setting"] == {"key": flag.removeprefix("--"), "source": flag}


async def test_a_server_that_cannot_start_names_its_entry(tmp_path: Path) -> None:
    @asynccontextmanager
    async def missing(entry: ServerEntry) -> AsyncIterator[Any]:
        raise ServerError("there is no program gone")
        yield

    origin = tmp_path / "config.json"
    entry = ServerEntry(name="db", origin=origin, scope="home", project=tmp_path, values={})
    server = McpServer(entry=entry, home=tmp_path, open=missing, emit=no_emit)

    with pytest.raises(ServerError) as caught:
        await server.connect()

    assert caught.value.setting == Setting("mcpServers.db", str(origin))
