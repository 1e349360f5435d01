"""`kode run --input-format stream-json`: several turns in one process, steered and interrupted."""

import base64
import json
import signal
from typing import Any

import pytest

from tests.e2e.command import Place
from tests.pictures import png
from tests.scripted_server import ScriptedServer

STREAM = ("--input-format", "stream-json", "--output-format", "stream-json")
SHOT = png(7, 5)
SLOW = {"text": "Let me think about it.", "wire": {"endless": True}}


def line(**fields: Any) -> str:
    return json.dumps(fields) + "\n"


def picture(data: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(data).decode()
    source = {"type": "base64", "media_type": "image/png", "data": encoded}
    return {"type": "image", "source": source}


class Talk:
    """A kode that reads messages; what it prints is read as it comes."""

    def __init__(self, place: Place, *flags: str) -> None:
        self.process = place.start("run", *STREAM, *flags, stdin=-1, bufsize=1)
        self.seen: list[dict[str, Any]] = []

    def say(self, **fields: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line(**fields))
        self.process.stdin.flush()

    def until(self, kind: str) -> dict[str, Any]:
        """Reads on to the next event of a kind."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.seen.append(json.loads(text))
            if self.seen[-1]["type"] == kind:
                return self.seen[-1]
        raise AssertionError(f"no {kind}: {self.seen}")

    def end(self) -> int:
        """Ends stdin, reads what is left, gives the exit code."""
        out, _ = self.process.communicate(timeout=60)
        self.seen += map(json.loads, out.splitlines())
        return self.process.returncode


@pytest.mark.smoke
def test_each_message_is_a_turn_with_a_result(place: Place, server: ScriptedServer) -> None:
    refused = {"error": {"status": 400, "text": "no"}}
    server.play([{"text": "1"}, refused, SLOW, {"text": "2"}])
    talk = Talk(place, "--no-memory", "--json-schema", '{"type": "integer"}')

    talk.say(type="user", text="one")
    first = talk.until("result")
    talk.say(type="user", text="fail")
    failed = talk.until("result")
    talk.say(type="user", text="Think")
    talk.until("text_delta")
    talk.say(type="interrupt")
    interrupted = talk.until("result")
    talk.say(type="user", message={"content": [{"type": "text", "text": "two"}, picture(SHOT)]})
    last = talk.until("result")

    assert talk.end() == 0  # only the last turn counts
    results = (first, failed, interrupted, last)
    statuses = [result["status"] for result in results]
    assert statuses == ["success", "error", "interrupted", "success"]
    assert [result["structured"] for result in results] == [1, None, None, 2]
    assert len({result["session_id"] for result in results}) == 1
    assert [event["type"] for event in talk.seen].count("session_started") == 1
    sent = server.requests[-1].body.decode()
    assert "one" in sent
    assert base64.b64encode(SHOT).decode() in sent


def test_the_first_line_is_a_turn_and_later_lines_steer(
    place: Place, server: ScriptedServer
) -> None:
    server.play([{"text": "The first.", "delay_s": 0.2}, {"text": "Both."}])
    text = line(type="user", text="first") + line(type="user", text="second")
    done = place.run("run", *STREAM, stdin=text)

    said = [event["text"] for event in done.lines if event["type"] in ("turn_started", "steered")]
    assert said == ["first", "second"]
    assert (done.code, done.lines[-1]["result"]) == (0, "Both.")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{no json\n", 'Line 1 of the input: it is not JSON. One looks like {"type": "user", "t'),
        (line(type="usr", text="1"), "'user' or 'interrupt'"),
        (line(type="user"), "neither `text` nor a `message`"),
        (
            line(type="user", message={"content": [{"type": "video"}]}),
            "'text', 'image' or 'document'",
        ),
    ],
)
def test_an_unusable_line_is_reported_and_the_rest_is_done(
    place: Place, server: ScriptedServer, given: str, why: str
) -> None:
    server.play([{"text": "Fine."}])
    done = place.run("run", *STREAM, stdin=given + "\n" + line(type="user", text="Hello"))

    [error] = [event for event in done.lines if event.get("level") == "error"]
    assert why in error["text"]
    assert done.code == 0
    assert done.lines[-1]["result"] == "Fine."


@pytest.mark.parametrize("given", ["", "\n \n", "no JSON\n", line(type="user", text=" ")])
def test_input_without_a_message_is_an_error_with_a_result(
    place: Place, server: ScriptedServer, given: str
) -> None:
    done = place.run("run", *STREAM, stdin=given)

    assert done.code == 3
    assert (done.lines[-1]["type"], done.lines[-1]["status"]) == ("result", "error")
    assert "no message" in done.lines[-1]["error"]
    assert not server.requests


def test_a_signal_ends_the_turn_with_a_result_then_kode(
    place: Place, server: ScriptedServer
) -> None:
    server.play([SLOW])
    talk = Talk(place)
    talk.say(type="user", text="Think")
    talk.until("text_delta")
    talk.process.send_signal(signal.SIGINT)
    result = talk.until("result")

    assert result["status"] == "interrupted"
    assert talk.process.wait(60) == 130
    talk.end()
