"""What the REPL cannot do is said before it opens."""

from pathlib import Path

import pytest

from kode.cli.commands.interactive import is_set_up, open_repl
from kode.cli.flags import add_conversation_flags
from kode.cli.parser import Parser
from kode.errors import ConfigError
from kode.registry import PROVIDERS


@pytest.mark.parametrize(
    "flags", [["--json-schema", "bug.json"], ["--input-format", "stream-json"]]
)
def test_flags_of_a_task_are_refused_at_the_prompt(flags: list[str]) -> None:
    parser = Parser("kode", "")
    add_conversation_flags(parser)
    with pytest.raises(ConfigError, match="are for tasks: `kode run TASK`"):
        open_repl(parser.parse(flags), None, None)


@pytest.mark.parametrize(
    ("environ", "ready"),
    [
        ({}, False),
        ({"GROQ_API_KEY": "g"}, True),
        ({"AZURE_OPENAI_BASE_URL": "https://mine.openai.azure.com"}, True),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, True),
    ],
)
def test_a_variable_of_any_provider_is_a_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], ready: bool
) -> None:
    for row in PROVIDERS:
        for name in filter(None, (row.key_variable, row.url_variable)):
            monkeypatch.delenv(name, raising=False)
    for name, value in {"KODE_HOME": str(tmp_path), **environ}.items():
        monkeypatch.setenv(name, value)
    parser = Parser("kode", "")
    add_conversation_flags(parser)

    assert is_set_up(parser.parse([]), tmp_path) is ready
