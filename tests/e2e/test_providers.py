"""Providers that only the config knows, how much a model thinks, and subagents with both."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer([{"text": "done"}], repeat_last=True) as running:
        yield running


def described(place: Place, server: ScriptedServer, **more: Any) -> None:
    """The provider `mine`, with a key and a header of its own."""
    part = {
        "base_url": server.openai_url,
        "api_key": "key-of-mine-0123456789",
        "headers": {"x-team": "blue"},
        "model": "big",
        **more,
    }
    place.extra["KODE_MODEL"] = ""
    place.home.mkdir(exist_ok=True)
    (place.home / "config.json").write_text(json.dumps({"providers": {"mine": part}}))


@pytest.mark.parametrize(
    ("api", "path"),
    [
        ("chat", "/v1/chat/completions"),
        ("responses", "/v1/responses"),
        ("messages", "/v1/messages"),
    ],
)
def test_a_described_provider_gets_its_format_key_and_headers(
    place: Place, server: ScriptedServer, api: str, path: str
) -> None:
    url = server.anthropic_url if api == "messages" else server.openai_url
    described(place, server, api=api, base_url=url)

    done = place.run("run", "go", "--provider", "mine", "--no-memory")

    assert (done.code, done.out) == (0, "done\n")
    request = server.requests[-1]
    assert request.path == path
    assert request.headers["authorization"] == "Bearer key-of-mine-0123456789"
    assert (request.headers["x-team"], request.json["model"]) == ("blue", "big")


def test_subagents_use_the_same_provider_and_think_as_told(
    place: Place, server: ScriptedServer
) -> None:
    described(place, server, effort="low")
    tasks = [{"goal": "look"}, {"goal": "think hard", "effort": "max"}]

    def script(request: dict[str, Any]) -> dict[str, Any]:
        said = json.dumps(request["messages"])
        if "# Goal" in said:
            return {"text": "found"}
        if "tool_calls" not in said:
            return {"calls": [{"name": "delegate_tasks", "arguments": {"tasks": tasks}}]}
        return {"text": "done"}

    server.play(script)
    done = place.run(
        *("run", "delegate", "--provider", "mine", "--no-memory", "--permission-mode", "full")
    )

    assert (done.code, done.out) == (0, "done\n")
    efforts = {}
    for request in server.requests:
        said = json.dumps(request.json["messages"])
        who = "hard" if "# Goal\\nthink hard" in said else "look" if "# Goal" in said else "parent"
        efforts[who] = request.json["reasoning_effort"]
        assert request.headers["authorization"] == "Bearer key-of-mine-0123456789"
        assert request.headers["x-team"] == "blue"
    assert efforts == {"parent": "low", "look": "low", "hard": "max"}
