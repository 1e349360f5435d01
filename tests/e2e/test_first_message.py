"""The first messages of a client, as they are on the wire: `kode acp` and `kode mcp serve`."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.command import LONGEST_S, Place
from tests.scripted_server import ScriptedServer
from tests.warm import KODE

EDITOR = {"protocolVersion": 1, "clientCapabilities": {}}
AGENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a test", "version": "1"},
}
FACES = pytest.mark.parametrize(
    ("words", "params"), [(("acp",), EDITOR), (("mcp", "serve"), AGENT)], ids=["acp", "mcp"]
)


def request(number: Any, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


@contextmanager
def running(place: Place, *words: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [KODE, *words],
        env=place.environ,
        cwd=place.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def talked(place: Place, words: tuple[str, ...], *lines: str) -> list[dict[str, Any]]:
    """What kode writes until each request among these lines, sent at once, has an answer."""
    waiting = {one["id"] for one in map(json.loads, lines)}
    shown: list[dict[str, Any]] = []
    with running(place, *words) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        while waiting:
            shown.append(json.loads(process.stdout.readline()))
            if "method" not in shown[-1]:
                waiting.discard(shown[-1]["id"])
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait(LONGEST_S) == 0
    return shown


@FACES
def test_each_initialize_is_answered_once_and_alike(
    place: Place, words: tuple[str, ...], params: dict[str, Any]
) -> None:
    lines = [request(number, "initialize", **params) for number in ("a", 1)]

    first, second = talked(place, words, *lines)

    assert (first["id"], second["id"]) == ("a", 1)
    assert first["result"] == second["result"]


@FACES
@pytest.mark.parametrize("broken", ["this is no JSON", "[]", "{}", '{"id": 1, "method": 5}', ""])
def test_a_broken_first_line_leaves_the_second_to_be_answered(
    place: Place, words: tuple[str, ...], params: dict[str, Any], broken: str
) -> None:
    with running(place, *words) as process:
        out, _ = process.communicate(f"{broken}\n{request(7, 'initialize', **params)}\n", LONGEST_S)

    *_, answer = map(json.loads, out.splitlines())
    assert answer["id"] == 7
    assert answer["result"]["protocolVersion"] == params["protocolVersion"]


@FACES
@pytest.mark.parametrize("version", [None, [], 1.5, True])
def test_a_malformed_initialize_is_left_to_the_sdk(
    place: Place, words: tuple[str, ...], params: dict[str, Any], version: Any
) -> None:
    wrong = request(1, "initialize", **{**params, "protocolVersion": version})
    answers = talked(place, words, wrong, request(2, "initialize", **params))

    assert sorted(one["id"] for one in answers) == [1, 2]
    assert "result" in next(one for one in answers if one["id"] == 2)


def test_capabilities_of_the_first_message_count(place: Place) -> None:
    can = {"auth": {"terminal": True}}
    (answer,) = talked(
        place, ("acp",), request(1, "initialize", protocolVersion=1, clientCapabilities=can)
    )

    assert answer["result"]["authMethods"][0]["type"] == "terminal"


def test_a_first_message_in_pieces_is_answered(place: Place) -> None:
    with running(place, "acp") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = request(1, "initialize", **EDITOR)
        for piece in (line[:20], line[20:], "\n"):
            process.stdin.write(piece)
            process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1


@FACES
def test_a_signal_ends_kode_before_the_first_message(
    place: Place, words: tuple[str, ...], params: dict[str, Any]
) -> None:
    with running(place, *words) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request(1, "initialize", **params)[:-1])
        process.stdin.flush()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_S) != 0
        assert process.stdout.read() == ""


def test_a_prompt_to_a_session_that_loads_waits_for_it(place: Place) -> None:
    where = str(place.project)
    with ScriptedServer([{"text": "Once."}, {"text": "Twice."}]) as server:
        place.url = server.openai_url
        done = place.run("run", "hello", "--no-memory", "--output-format", "json")
        session = done.json["session_id"]
        text = [{"type": "text", "text": "again"}]
        lines = talked(
            place,
            ("acp", "--no-memory"),
            request(1, "initialize", **EDITOR),
            request(2, "session/load", sessionId=session, cwd=where, mcpServers=[]),
            request(3, "session/prompt", sessionId=session, prompt=text),
            request(4, "session/set_model", sessionId=session, modelId="nonsense"),
        )

    order = [one.get("id") or one["params"]["update"]["sessionUpdate"] for one in lines]
    said = [
        one["params"]["update"]["content"]["text"]
        for one in lines
        if "params" in one and one["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
    ]
    assert said[0] == "Once."
    assert order.index("agent_message_chunk") < order.index(2) < order.index(3)
    assert next(one for one in lines if one.get("id") == 4)["error"]["code"] == -32601
