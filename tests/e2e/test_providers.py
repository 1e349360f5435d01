"""Providers that only the config knows, and the model that takes the place of one that fails."""

import json
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

RUN = ("run", "go", "--fallback-model", "gpt-4.1-mini", "--output-format", "stream-json")
OVERLOADED = {"error": {"status": 529, "text": "Overloaded"}}
REFUSED = {"error": {"status": 403, "text": "no"}}


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
    place.extra["KODE_MODEL"] = ""
    place.home.mkdir()
    mine = {
        "base_url": server.anthropic_url if api == "messages" else server.openai_url,
        "api": api,
        "api_key": "key-of-mine-0123456789",
        "headers": {"x-team": "blue"},
        "model": "big",
    }
    (place.home / "config.json").write_text(json.dumps({"providers": {"mine": mine}}))
    delegate = {"name": "delegate_tasks", "arguments": {"tasks": [{"goal": "look"}]}}
    server.play([{"calls": [delegate]}, {"text": "found"}, {"text": "done"}])

    done = place.run(
        *("run", "go", "--provider", "mine", "--no-memory", "--permission-mode", "full")
    )

    assert (done.code, done.out) == (0, "done\n")
    assert len(server.requests) == 3
    for request in server.requests:
        assert request.path == path
        assert request.headers["authorization"] == "Bearer key-of-mine-0123456789"
        assert (request.headers["x-team"], request.json["model"]) == ("blue", "big")


@pytest.mark.parametrize(
    ("reply", "asked", "status", "fallback"),
    [
        (OVERLOADED, ["gpt-4.1", "gpt-4.1-mini"], "success", "gpt-4.1-mini"),
        ({"error": {"status": 429}}, ["gpt-4.1", "gpt-4.1-mini"], "success", "gpt-4.1-mini"),
        ({"wire": {"hang_up": 1}}, ["gpt-4.1", "gpt-4.1-mini"], "success", "gpt-4.1-mini"),
        (REFUSED, ["gpt-4.1"], "error", None),
    ],
    ids=["overloaded", "limited", "gone", "refused"],
)
def test_the_fallback_takes_the_place_of_an_unavailable_model(
    place: Place,
    server: ScriptedServer,
    reply: dict[str, Any],
    asked: list[str],
    status: str,
    fallback: str | None,
) -> None:
    def script(request: dict[str, Any]) -> dict[str, Any]:
        return {"text": "done"} if request["model"] == "gpt-4.1-mini" else reply

    server.play(script)
    place.home.mkdir()
    (place.home / "config.json").write_text('{"retry": {"max_attempts": 1}}')

    done = place.run(*RUN)

    assert [one.json["model"] for one in server.requests] == asked
    result = done.lines[-1]
    assert (result["status"], result["fallback_model"]) == (status, fallback)
    entries = [json.loads(line) for line in place.session_files[-1].read_text().splitlines()]
    assert [one["model"] for one in entries if one["type"] == "request"] == asked
    turns = [one.get("fallback_model") for one in entries if one["type"] == "turn"]
    assert turns == [fallback]
