"""A fallback model continues the turn of one that is unavailable, and is named wherever it did."""

import json
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

RUN = ["run", "go", "--fallback-model", "gpt-4.1-mini"]
OVERLOADED = {"error": {"status": 529, "text": "Overloaded"}}


@pytest.fixture(autouse=True)
def one_attempt(place: Place) -> None:
    place.home.mkdir()
    (place.home / "config.json").write_text('{"retry": {"max_attempts": 1}}')


def asked(server: ScriptedServer) -> list[str]:
    return [request.json["model"] for request in server.requests if "model" in request.json]


def fails(reply: dict[str, Any]) -> Any:
    def script(request: dict[str, Any]) -> dict[str, Any]:
        return {"text": "done"} if request["model"] == "gpt-4.1-mini" else reply

    return script


@pytest.mark.parametrize(
    "reply",
    [OVERLOADED, {"error": {"status": 503}}, {"error": {"status": 429}}, {"wire": {"hang_up": 1}}],
    ids=["overloaded", "failing", "limited", "gone"],
)
def test_a_model_that_is_unavailable_gives_way(place: Place, reply: dict[str, Any]) -> None:
    with ScriptedServer(fails(reply)) as server:
        place.url = server.openai_url
        done = place.run(*RUN, "--output-format", "stream-json")

    assert asked(server) == ["gpt-4.1", "gpt-4.1-mini"]
    result, notices = done.lines[-1], [line for line in done.lines if line["type"] == "notice"]
    assert (done.code, result["result"]) == (0, "done"), done.err
    assert result["fallback_model"] == "gpt-4.1-mini"
    assert any("gpt-4.1-mini" in notice["text"] for notice in notices)
    entries = [json.loads(line) for line in place.session_files[-1].read_text().splitlines()]
    assert [e["model"] for e in entries if e["type"] == "request"] == ["gpt-4.1", "gpt-4.1-mini"]
    turns = [entry["fallback_model"] for entry in entries if entry["type"] == "turn"]
    assert turns == ["gpt-4.1-mini"]


@pytest.mark.parametrize("status", ["auth", "refused", 403, 404, 402])
def test_no_fault_of_the_request_asks_the_fallback(place: Place, status: str | int) -> None:
    with ScriptedServer(fails({"error": {"status": status, "text": "no"}})) as server:
        place.url = server.openai_url
        done = place.run(*RUN, "--output-format", "json")

    assert set(asked(server)) == {"gpt-4.1"}
    assert done.json["status"] == "error"
    assert done.json["fallback_model"] is None


def test_a_fallback_that_fails_too_ends_the_turn(place: Place) -> None:
    with ScriptedServer([OVERLOADED], repeat_last=True) as server:
        place.url = server.openai_url
        done = place.run(*RUN, "--output-format", "json")

    assert asked(server) == ["gpt-4.1", "gpt-4.1-mini"]
    assert (done.code, done.json["status"]) == (1, "error")
    assert done.json["fallback_model"] == "gpt-4.1-mini"
