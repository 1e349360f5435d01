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
SLOW = {"text": "Let me think about it.", "wire": {"endless": True}}


def line(**fields: Any) -> str:
    return json.dumps(fields) + "\n"


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
    server.play([{"text": "One."}, {"text": "Two."}])
    talk = Talk(place)

    talk.say(type="user", text="1")
    first = talk.until("result")
    talk.say(type="user", message={"role": "user", "content": [{"type": "text", "text": "2"}]})
    second = talk.until("result")

    assert talk.end() == 0
    assert (first["result"], second["result"]) == ("One.", "Two.")
    assert first["session_id"] == second["session_id"]
    assert [event["type"] for event in talk.seen].count("session_started") == 1
    assert "One." in server.requests[1].body.decode()


def test_the_first_line_is_a_turn_and_later_lines_steer(
    place: Place, server: ScriptedServer
) -> None:
    server.play([{"text": "The first.", "delay_s": 0.2}, {"text": "Both."}])
    text = line(type="user", text="first") + line(type="user", text="second")
    done = place.run("run", *STREAM, stdin=text)

    said = [event["text"] for event in done.lines if event["type"] in ("turn_started", "steered")]
    assert said == ["first", "second"]
    assert (done.code, done.lines[-1]["result"]) == (0, "Both.")


def test_an_interrupt_ends_the_turn_and_the_next_one_runs(
    place: Place, server: ScriptedServer
) -> None:
    server.play([SLOW, {"text": "Here I am."}])
    talk = Talk(place)

    talk.say(type="user", text="Think")
    talk.until("text_delta")
    talk.say(type="interrupt")
    first = talk.until("result")
    talk.say(type="user", text="Are you there?")
    second = talk.until("result")

    assert talk.end() == 0
    assert (first["status"], second["status"]) == ("interrupted", "success")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{no json\n", 'Line 1 of the input: it is not JSON. One looks like {"type": "user", "t'),
        (line(type="usr", text="1"), "'user', 'interrupt'"),
        (line(type="user"), "neither `text` nor a `message`"),
        (
            line(type="user", message={"content": [{"type": "video"}]}),
            "'text', 'image', 'document'",
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


def test_a_failed_turn_decides_the_exit_code_only_if_last(
    place: Place, server: ScriptedServer
) -> None:
    server.play([{"error": {"status": 400, "text": "no"}}, {"text": "Yes."}])
    talk = Talk(place)
    talk.say(type="user", text="1")
    failed = talk.until("result")
    talk.say(type="user", text="2")
    talk.until("result")

    assert talk.end() == 0
    assert failed["status"] == "error"


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


def test_each_turn_has_an_answer_that_fits_the_schema(place: Place, server: ScriptedServer) -> None:
    server.play([{"text": "1"}, {"text": "2"}])
    talk = Talk(place, "--json-schema", '{"type": "integer"}')
    talk.say(type="user", text="one")
    first = talk.until("result")
    talk.say(type="user", text="two")
    second = talk.until("result")

    assert talk.end() == 0
    assert (first["structured"], second["structured"]) == (1, 2)


def picture(data: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(data).decode()
    source = {"type": "base64", "media_type": "image/png", "data": encoded}
    return {"type": "image", "source": source}


def test_pictures_in_a_message_reach_the_model(place: Place, server: ScriptedServer) -> None:
    server.play([{"text": "Seen."}])
    said = [{"type": "text", "text": "Look"}, picture(png(7, 5))]

    done = place.run("run", *STREAM, stdin=line(type="user", message={"content": said}))

    assert done.lines[-1]["result"] == "Seen."
    assert base64.b64encode(png(7, 5)).decode() in json.dumps(server.requests[0].json)
