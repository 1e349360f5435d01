"""Providers without a server: scripts, read strictly and played in order; the one of the docs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kode.errors import ConfigError
from kode.messages import Message, ToolResult, calls_of, text_of, user_message
from kode.provider import Request
from kode.providers import ProviderSettings, open_provider
from kode.providers.models import model_info_of
from kode.providers.scripted import load_script
from kode.registry import provider_row
from tests.tables import for_each


def asking(text: str) -> Request:
    return Request(system="", messages=[user_message(text)])


async def said(provider: Any, request: Request) -> str:
    return text_of(await provider.reply(request, lambda event: None))


def write(folder: Path, replies: list[Any]) -> Path:
    path = folder / "script.json"
    path.write_text(json.dumps(replies))
    return path


async def test_a_match_answers_out_of_order_as_often_as_asked(tmp_path: Path) -> None:
    replies = [{"text": "first"}, {"match": "^Extract", "text": "facts"}, {"text": "second"}]
    provider = open_provider("scripted", script=write(tmp_path, replies))

    answers = [await said(provider, asking(t)) for t in ("a", "Extract b", "Extract c", "d")]

    assert answers == ["first", "facts", "facts", "second"]


async def test_replies_after_a_match_stay_in_its_conversation(tmp_path: Path) -> None:
    then = [{"calls": [{"name": "todo"}]}, {"text": "reported"}]
    matching = {"match": "^Look", "calls": [{"name": "todo"}], "then": then}
    provider = open_provider("scripted", script=write(tmp_path, [matching, {"text": "mine"}]))

    async def answered(request: Request) -> Request:
        reply = await provider.reply(request, lambda event: None)
        results = tuple(ToolResult(call_id=c.id, name=c.name, text="") for c in calls_of(reply))
        tool = Message(role="tool", parts=results)
        return Request(system="", messages=[*request.messages, reply, tool])

    first = await answered(asking("Look around"))
    other = await said(provider, asking("something else"))
    second = await answered(first)

    assert other == "mine"
    assert await said(provider, second) == "reported"


@for_each(
    ("text", "named"),
    [
        ('{"text": "a"}\n{"text": }\n', "not JSON|cannot be read"),
        ('[{"text": "a"}, {"txt": "b"}]', "reply 2.*`txt`"),
        ('{"text": "b"}\n{"text": 5}', "line 2: `text` cannot be 5"),
        ('{"stop": "tired"}', "\"tired\".*'tool_calls'"),
        ('{"calls": [{}]}', "`calls.0.name`"),
        ('{"usage": {"input_tokens": -1}}', "`usage.input_tokens` cannot be -1"),
        ('{"error": {"status": 200}}', "`error.status` cannot be 200"),
        ('{"match": "("}', "`match`.*regular expression"),
        ('"hello"', "`the reply`"),
    ],
)
def test_a_bad_script_names_the_place_and_what_is_allowed(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)

    with pytest.raises(ConfigError, match=f"script.json.*{named}"):
        load_script(path)


def test_a_script_that_is_not_there_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        open_provider("scripted", script=tmp_path / "missing.json")
    with pytest.raises(ConfigError, match="kode demo"):
        open_provider("scripted")


async def test_the_provider_of_the_recipe_replies() -> None:
    recipe = Path(__file__).parents[2] / "docs" / "adding-a-provider.md"
    (code,) = re.findall(r"```python\n(.*?)```", recipe.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(recipe), "exec"), names)
    row = provider_row("scripted")
    assert row is not None

    echo = names["Echo"](ProviderSettings(row=row, model="m", info=model_info_of("m")))

    assert await said(echo, asking("Hi")) == "Hi"
    assert (echo.name, echo.model) == ("scripted", "m")
    await echo.aclose()
