"""What holds for every wire format: a whole message or an error of kode comes of whatever a server
answers, and what a request asks for reaches the server."""

import asyncio
import base64
import itertools
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.config.model import Retry
from kode.errors import (
    AuthenticationError,
    ContextOverflow,
    ProviderError,
    RefusedError,
    TransientError,
)
from kode.events import Notice
from kode.images import save_picture
from kode.messages import Message, Text, ToolCall, calls_of, text_of, user_message
from kode.provider import Request
from kode.providers import draft, open_provider, stream
from kode.registry import provider_row
from tests.pictures import pdf, png
from tests.providers.conftest import Connect
from tests.providers.line import FORMATS, READ, Line, attached, kinds_in, results_of, traced
from tests.tables import for_each

each = pytest.mark.parametrize("name", FORMATS)
HELLO = Request(system="", messages=[user_message("Hello")])
KEY = "very-secret-key-17"
TEXT = "one two three four five six seven eight nine ten"
CALLING = {"text": "I will read it.", "calls": [{"name": "read_file", "arguments": {"path": "a"}}]}
PAGE = "<!doctype html><html><title>502 Bad Gateway</title><form>...</form></html>"
ELSEWHERE = {"location": "http://127.0.0.1:9/v1/x?token=1"}


def fault_after(**error: Any) -> dict[str, Any]:
    return {"text": "Hello there", "wire": {"error_after": {"chunks": 2, "error": error}}}


def body(text: str, kind: str = "text/html", **wire: Any) -> dict[str, Any]:
    return {"wire": {"body": text, "content_type": kind, **wire}}


FAULTS: list[tuple[dict[str, Any], type[ProviderError], str]] = [
    ({"text": TEXT, "wire": {"drop_after": "one two"}}, TransientError, ""),
    *(({**CALLING, "wire": {"end_after": at}}, TransientError, "") for at in (0, 1, 3, 5)),
    ({"wire": {"hang_up": True}}, TransientError, ""),
    ({"wire": {"text_bytes": 5_000_000}}, RefusedError, "1 million characters"),
    ({"wire": {"frames": ["data: {" + "x" * 65536, *["x" * 65536] * 40]}}, RefusedError, ""),
    ({"wire": {"status": 307, "body": "", "headers": ELSEWHERE}}, RefusedError, "127.0.0.1:9/v1/x"),
    (body("x" * 3_000_000, status=503), TransientError, ""),
    (body(PAGE, status=502), TransientError, "502 Bad Gateway"),
    *(
        (body(PAGE, kind, status=status), RefusedError, "web page")
        for status in (200, 203)
        for kind in ("text/html; charset=utf-8", "text/plain", "text/event-stream")
    ),
    *(
        (body(text, kind), TransientError, "")
        for text in ("", "null", "[]", '"hi"', '{"id": "x", "choi', "{}", "OK", ": ping\n\n")
        for kind in ("application/json", "text/event-stream", "text/plain")
    ),
    *(
        ({"wire": {"frames": [f"data: {frame}\n\n"]}}, TransientError, "")
        for frame in ('{"half":', "[1, 2]", "17", "\xff\xfe", "[" * 100_000)
    ),
    (fault_after(status="overflow"), ContextOverflow, ""),
    (fault_after(status=500), TransientError, ""),
    (fault_after(status=529, type="overloaded_error"), TransientError, ""),
    (fault_after(status=401, type="authentication_error"), AuthenticationError, ""),
    (fault_after(status=429, type="rate_limit_error"), TransientError, ""),
    (fault_after(status=400, type="invalid_request_error", text="bad"), RefusedError, "bad"),
    (fault_after(status=400, type="something_new", text="who knows"), TransientError, ""),
    ({"calls": [{"name": "todo"}] * 129}, RefusedError, "128"),
    ({"error": {"status": 404, "text": "The model `m` does not exist", "code": "model_not_found"}},
     RefusedError, "--model"),
    ({"error": {"status": 401, "text": f"No: {KEY} (\x1b[31mred)"}}, AuthenticationError, ""),
    *(
        ({"error": {"status": 401, "text": base64.b64encode(quoted).decode()}}, ProviderError, "[")
        for quoted in (f"{before}{KEY}\r\n".encode() for before in ("", "Bearer ", "x: ", "ab"))
    ),
]  # fmt: skip


async def fault_of(line: Line, script: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await line.reply(script)
    return caught.value


@each
async def test_a_faulty_answer_is_an_error_that_shows_no_secret(
    connect: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft, "MAX_CHARS", 1_000_000)
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 1_000_000)
    line = connect(name, api_key=KEY)
    spelled = [base64.b64encode(b"x" * at + KEY.encode()).decode() for at in range(3)]
    quoted = {text[at : at + 8] for text in spelled for at in range(4, len(text) - 12)}
    for reply, kind, words in FAULTS:
        error = await fault_of(line, reply)

        shown = f"{error} {error!r} {error.__cause__!r}"
        assert isinstance(error, kind) if kind is ProviderError else type(error) is kind, reply
        assert words in str(error)
        assert len(str(error)) < 700
        assert not any(part in shown for part in (KEY, "token=", "\x1b", "<html>", *quoted)), reply
        assert len(line.server.requests) == 1  # a redirect is not followed


@each
@pytest.mark.slow
async def test_an_own_server_may_be_silent_before_it_answers(connect: Connect, name: str) -> None:
    line = connect(name, retry=Retry(idle_timeout_s=0.2))
    late = {"text": "Hello", "wire": {"stall_before_s": 1.0}}

    said = [text_of(await line.reply(late)) for _ in range(2)]

    assert said == ["Hello", "Hello"]


@each
async def test_an_endless_stream_ends_at_the_total_limit(connect: Connect, name: str) -> None:
    line = connect(name, retry=Retry(idle_timeout_s=5, total_timeout_s=0.4))

    error = await fault_of(line, {"wire": {"endless": True, "chunk_delay_s": 0.01}})

    assert type(error) is RefusedError  # not asked for again, or it would take as long again
    assert "0.4 s" in str(error)
    line.server.wait_for("disconnects")


@each
async def test_odd_replies_are_whole_messages_over_one_connection(
    connect: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.providers.stream.LAST_WORDS_S", 0.2)
    line = connect(name, api_key=None, retry=Retry(idle_timeout_s=600))  # it needs no key
    for wire in ({"no_usage": True}, {}):
        message = await line.reply({"text": "Hi", "wire": wire})
        assert (text_of(message), message.stop) == ("Hi", "end")
        assert (message.usage is None) == ("no_usage" in wire)
    assert line.server.open_connections == 1
    whole = await line.reply({"text": "Hi", "calls": [{"name": "todo"}], "wire": {"whole": True}})
    assert (text_of(whole), [call.name for call in calls_of(whole)]) == ("Hi", ["todo"])
    assert whole.usage is not None
    for wire in ({"linger_s": 3600}, {"linger_s": 3600, "no_done": True}):
        async with asyncio.timeout(30):
            assert text_of(await line.reply({"text": "Hi", "wire": wire})) == "Hi"


@each
async def test_ids_and_names_of_calls_are_mended(connect: Connect, name: str) -> None:
    line = connect(name)
    names = {
        "\x1b]52;c;ZXZpbA==\x07\u202e": "__52_c_ZXZpbA____",
        "functions.read_file": "functions_read_file",
        "x" * 70: "x" * 64,
        "": "unnamed",
    }
    calls = [{"name": given, "arguments": {"path": "a"}} for given in names]

    made = calls_of(await line.reply({"calls": calls, "wire": {"ids": ["", "p17", "p17", ""]}}))

    assert [call.name for call in made] == list(names.values())
    assert [call.own for call in made] == [None] * 4
    assert made[1].id == "p17"
    assert len({call.id for call in made} - {""}) == 4


@each
@pytest.mark.parametrize("key", ["ключ", "sk-a\nb", "sk-“x”"])
async def test_a_key_that_no_header_can_carry_is_reported(
    connect: Connect, name: str, key: str
) -> None:
    line = connect(name, api_key=key)

    assert type(await fault_of(line, {"text": "never"})) is AuthenticationError
    assert not line.server.requests


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_an_official_server_is_not_asked_without_a_key(name: str) -> None:
    row = provider_row(name)
    assert row is not None

    with pytest.raises(AuthenticationError, match=f"kode demo.*{row.key_variable}"):
        await open_provider(name, "m").reply(HELLO, print)


TRACES: dict[str, Any] = {
    "openai_text_stream": ("end", [], (25, 5, 6)),
    "anthropic_text_stream": ("end", [], None),
    "llamacpp_responses_text_stream": ("end", [], (25, 5, 14)),
    "openai_text_once": ("end", [], None),
    "anthropic_text_once": ("end", [], None),
    "openai_length_stop": ("length", [], None),
    "anthropic_max_tokens": ("length", [], None),
    **{
        f"{name}_stream": ("tool_calls", ["src/main.py"], None)
        for name in ("openai_tools_auto", "anthropic_tools_auto", "llamacpp_responses_tools")
    },
    "openai_parallel_tools": ("tool_calls", ["a.txt", "b.txt"], None),
    "openai_tool_call_truncated": ("length", ['{"path": "'], None),
    "anthropic_tool_call_truncated": ("length", ['{"path": "'], None),
    "openai_err_context_overflow": ContextOverflow,
    "anthropic_err_overflow": ContextOverflow,
    "openai_bad_key": AuthenticationError,
}
"""How each recorded reply stops, the paths of its calls and its tokens, or the error it is."""


@for_each("name", TRACES)
async def test_a_recorded_reply_is_understood(connect: Connect, name: str) -> None:
    row, _, trace = name.partition("_")
    line = connect(row, **({"api": "responses"} if row == "llamacpp" else {}))
    reply = traced(trace if row == "llamacpp" else name)
    if isinstance(TRACES[name], type):
        assert type(await fault_of(line, reply)) is TRACES[name]
        return
    stop, paths, tokens = TRACES[name]

    message = await line.reply(reply, tools=(READ,))

    usage, given = message.usage, [call.arguments for call in calls_of(message)]
    assert usage is not None
    assert tokens in ((usage.input_tokens, usage.output_tokens, usage.cached_tokens), None)
    assert message.stop == stop
    assert (given if stop == "length" else [json.loads(one)["path"] for one in given]) == paths
    assert text_of(message) in ("Hello, world!", "") or tokens is None


# ── requests ─────────────────────────────────────────────────────────────────────────────────


@each
async def test_sent_bytes_begin_every_later_request(connect: Connect, name: str) -> None:
    line = connect(name)
    line.server.play([{"text": "ok"}] * 6)
    messages: list[Message] = []
    for number in range(6):
        messages.append(user_message(f"question {number} é"))
        if number == 2:  # the answer before was lost
            messages.append(user_message("again"))
        messages.append(await line.again(*messages, system="s", conversation="c"))

    mark = b',"cache_control":{"type":"ephemeral"}'
    bodies = [request.body for request in line.server.requests]
    marks = [2, *[3] * 5] if name == "anthropic" else [0] * 6
    assert [body.count(mark) for body in bodies] == marks
    plain = [body.replace(mark, b"").removesuffix(b"]}") for body in bodies]
    assert all(b.startswith(a) for a, b in itertools.pairwise(plain))


@each
@pytest.mark.parametrize("arguments", ['{"path": "a', "", "[1]", '{"x": Infinity}', "null"])
async def test_calls_that_servers_choke_on_go_out_repaired(
    connect: Connect, name: str, arguments: str
) -> None:
    long = "functions.x:0" + "c" * 50
    call = ToolCall(id=long, name="functions.read file", arguments=arguments)
    reply = Message(role="assistant", parts=(call,), stop="tool_calls")

    sent = await connect(name).sent(user_message("go"), reply, results_of(reply))

    text = json.dumps(sent)
    (made,) = {*re.findall(r'"(?:call_id|tool_call_id|tool_use_id|id)": "([^"]*)"', text)}
    assert '"functions_read_file"' in text
    assert ('"input": {}' if name == "anthropic" else '"arguments": "{}"') in text
    assert len(made) <= 64
    assert made.replace("_", "").replace("-", "").isalnum() or name == "azure"


async def content_sent(line: Line, *parts: Any) -> list[Any]:
    """What a person's message with these parts is on the wire."""
    sent = await line.sent(Message(role="user", parts=parts), conversation="")
    turn = (sent.get("messages") or sent["input"])[0]
    return [{k: v for k, v in part.items() if k != "cache_control"} for part in turn["content"]]


DATA = base64.b64encode(png()).decode()
URL = f"data:image/png;base64,{DATA}"
PICTURES = {
    "azure": {"type": "input_image", "image_url": URL, "detail": "auto"},
    "openai": {"type": "image_url", "image_url": {"url": URL}},
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": DATA},
    },
}


@each
@pytest.mark.parametrize("sees", [True, None, False])
async def test_a_picture_goes_to_a_model_that_can_see(
    connect: Connect, name: str, sees: bool | None, tmp_path: Path
) -> None:
    line = connect(name, facts={} if sees is None else {"sees_images": sees})
    shot = attached(tmp_path)

    shown, question = await content_sent(line, shot, Text(text="What is it?"))
    Path(shot.kept_in).unlink()
    gone, _ = await content_sent(line, shot, Text(text="What is it?"))

    assert question["text"] == "What is it?"
    assert "shot.png, is not shown" in gone["text"]
    if sees is False:
        assert "cannot see images" in shown["text"]
    else:
        assert shown == PICTURES[name]


@pytest.mark.parametrize(
    ("count", "side", "shown"),
    [(20, 2100, 20), (21, 2100, 0), (21, 2000, 21), (100, 9, 100), (101, 9, 76), (125, 9, 100)],
)
async def test_a_request_has_only_pictures_that_fit_together(
    connect: Connect, tmp_path: Path, count: int, side: int, shown: int
) -> None:
    images = [save_picture(tmp_path, "x.png", png(width=1 + number)) for number in range(count)]
    parts = [replace(image, width=side, height=side) for image in images]

    found = await content_sent(connect("anthropic"), *parts)

    assert kinds_in(found) == ["text"] * (count - shown) + ["image"] * shown


PACKED = b"%PDF-1.7\n1 0 obj\n<< /Type /ObjStm /N 1 /First 4 /Filter /FlateDecode >>\nstream\n"
PACKED += zlib.compress(b"2 0 << /Kids [] /Count 101 /Type /Pages >>") + b"\nendstream\nendobj"


@pytest.mark.parametrize(
    ("pages", "window", "shown"),
    [([60, 40], 9, 2), ([60, 41], 9, 1), ([5, 101], 9, 1), ([101], 1_000_000, 1), ([PACKED], 9, 0)],
)
async def test_a_request_has_only_pages_that_fit_together(
    connect: Connect, tmp_path: Path, pages: list[Any], window: int, shown: int
) -> None:
    files = [each if each is PACKED else pdf(*[str(each)] * each) for each in pages]
    line = connect("anthropic", facts={"context_window": window})

    found = await content_sent(line, *(save_picture(tmp_path, "x.pdf", file) for file in files))

    assert kinds_in(found).count("document") == shown
    assert "read_file shows them" in str(found) or shown == len(pages)
    assert len(line.shown(Notice)) == (shown < len(pages))


TOO_LARGE = "image dimensions exceed max allowed size for many-image requests: 2000 pixels"


@each
@pytest.mark.parametrize("words", [TOO_LARGE, "image input is not supported"])
async def test_a_turn_goes_on_without_pictures_that_the_server_refused(
    connect: Connect, name: str, words: str, tmp_path: Path
) -> None:
    line = connect(name)
    shown, new = attached(tmp_path), save_picture(tmp_path, "new.png", png(width=3))
    refusal = {"error": {"status": 400, "text": words}}
    first = Message(role="user", parts=(shown,))

    reply = await line.reply([refusal, {"text": "ok"}, {"text": "ok"}], first)
    await line.again(first, reply, Message(role="user", parts=(new, Text(text="And this?"))))

    _, repaired, after = map(json.dumps, line.bodies)
    assert len(line.shown(Notice)) == 1
    assert "not take it" in repaired
    assert repaired.count("base64") == 0
    assert after.count("base64,") + after.count('"base64"') == 1


SHOWN = {
    ("azure", "png"): "function_call_output input_text input_image message input_image",
    ("azure", "pdf"): "function_call_output input_text input_file message input_file",
    ("openai", "png"): "image_url image_url text",
    ("openai", "pdf"): "text text text",
    ("anthropic", "png"): "tool_result text image base64 image base64",
    ("anthropic", "pdf"): "tool_result text document base64 document base64",
}


@pytest.mark.parametrize(("name", "kind"), SHOWN)
async def test_pictures_of_a_call_are_in_its_result_or_follow(
    connect: Connect, name: str, kind: str, tmp_path: Path
) -> None:
    call = ToolCall(id="c1", name="paint", arguments="{}")
    asked = Message(role="assistant", parts=(call,), stop="tool_calls")
    shown, loose = attached(tmp_path, kind, call_id="c1"), attached(tmp_path, kind)
    results = Message(role="tool", parts=(*results_of(asked).parts, shown, loose))

    sent = await connect(name, facts={"sees_pdf": True}).sent(user_message("go"), asked, results)

    later = json.dumps((sent.get("messages") or sent["input"])[2:])
    types = re.findall(r'"type": "(\w+)"', later.replace('"type": "ephemeral"', ""))
    assert " ".join(types) == SHOWN[name, kind]
