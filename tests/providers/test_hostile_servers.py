"""Servers that lie, stall, break off and flood, over all wire formats: nothing but an error of
kode or a whole message may come of it."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest

from kode.errors import (
    AuthenticationError,
    ContextOverflow,
    ProviderError,
    RefusedError,
    Setting,
    TransientError,
)
from kode.events import Event, Notice, TextDelta
from kode.messages import Message, calls_of, text_of, user_message
from kode.provider import Request
from kode.providers import open_provider
from kode.registry import PROVIDERS
from tests.providers.conftest import Connect

HELLO = Request(system="You are kode.", messages=[user_message("Hello")])

KEYS = {row.name: row.key_variable for row in PROVIDERS}

each = pytest.mark.parametrize("name", ["azure", "openai", "anthropic"])
"""Providers that speak Responses, Chat Completions and Messages at any address."""


async def fault(provider: Any, emit: Callable[[Event], None] = lambda event: None) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.reply(HELLO, emit)
    return caught.value


async def answer(provider: Any) -> Message:
    return await provider.reply(HELLO, lambda event: None)  # type: ignore[no-any-return]


@each
async def test_a_dropped_stream_is_transient_and_shows_its_text(
    connect: Connect, name: str
) -> None:
    text = "one two three four five six seven eight nine ten"
    provider, _ = connect(name, [{"text": text, "wire": {"drop_after": "one two"}}])
    events: list[Event] = []

    error = await fault(provider, events.append)

    assert type(error) is TransientError
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert shown
    assert text.startswith(shown)


@each
@pytest.mark.parametrize("after", [0, 1, 3, 5])
async def test_a_stream_that_ends_without_a_stop_reason_is_transient(
    connect: Connect, name: str, after: int
) -> None:
    reply = {
        "text": "I will read it.",
        "calls": [{"name": "read_file", "arguments": {"path": "a"}}],
        "wire": {"end_after": after},
    }
    provider, _ = connect(name, [reply])

    assert type(await fault(provider)) is TransientError


@each
async def test_a_hang_up_instead_of_an_answer_is_transient(connect: Connect, name: str) -> None:
    provider, _ = connect(name, [{"wire": {"hang_up": True}}, {"text": "back"}])

    assert type(await fault(provider)) is TransientError
    assert text_of(await answer(provider)) == "back"


@each
async def test_a_server_that_is_down_is_named_with_advice(name: str) -> None:
    provider = open_provider(name, "m", base_url="http://127.0.0.1:9/v1", api_key="k")

    error = await fault(provider)

    assert type(error) is TransientError
    assert "http://127.0.0.1:9" in str(error)
    assert error.setting is not None
    assert error.setting.key == f"providers.{name}.base_url"
    await provider.aclose()


@each
@pytest.mark.parametrize("wire", [{"stall_before_s": 60}, {"stall_after": 2, "stall_s": 60}])
@pytest.mark.slow
async def test_a_stall_ends_at_the_idle_limit(
    connect: Connect, name: str, wire: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.providers.provider.is_near", lambda url: False)
    provider, server = connect(name, [{"text": "Hello there", "wire": wire}], idle_timeout_s=1.0)

    error = await fault(provider)

    assert type(error) is TransientError
    assert "nothing for 1 s" in str(error)
    server.wait_for_disconnect()


@each
@pytest.mark.slow
async def test_an_own_server_may_be_silent_with_one_notice(connect: Connect, name: str) -> None:
    wire = {"stall_before_s": 1.0}
    script = [{"text": "Hello", "wire": wire}, {"text": "there", "wire": wire}]
    provider, _ = connect(name, script, idle_timeout_s=0.2)
    events: list[Event] = []

    said = [text_of(await provider.reply(HELLO, events.append)) for _ in range(2)]

    assert said == ["Hello", "there"]
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert "retry.total_timeout_s" in notice.text
    await provider.aclose()


@each
async def test_an_endless_stream_ends_at_the_total_limit(connect: Connect, name: str) -> None:
    reply = {"wire": {"endless": True, "chunk_delay_s": 0.01}}
    provider, server = connect(name, [reply], idle_timeout_s=5, total_timeout_s=0.4)

    error = await fault(provider)

    assert type(error) is RefusedError  # not asked for again, or it would take as long again
    assert "not complete after 0.4 s" in str(error)
    server.wait_for_disconnect()


@each
async def test_a_flood_of_text_is_cut_off(connect: Connect, name: str) -> None:
    provider, server = connect(name, [{"wire": {"text_bytes": 50_000_000}}])

    error = await fault(provider)

    assert type(error) is RefusedError
    assert "10 million characters" in str(error)
    server.wait_for_disconnect()


@each
async def test_one_endless_line_is_cut_off(connect: Connect, name: str) -> None:
    line = ["data: {" + "x" * 65536, *["x" * 65536] * 400]
    provider, _ = connect(name, [{"wire": {"frames": line}}])

    assert type(await fault(provider)) is RefusedError


@each
@pytest.mark.parametrize("status", [200, 203])
@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "text/plain", "text/event-stream"])
async def test_a_login_page_is_no_reply(
    connect: Connect, name: str, status: int, kind: str
) -> None:
    page = "<!doctype html><html><title>Log in</title><form>...</form></html>"
    wire = {"status": status, "body": page, "content_type": kind}
    provider, _ = connect(name, [{"wire": wire}])

    error = await fault(provider)

    assert type(error) is RefusedError
    assert "web page" in str(error)


@each
@pytest.mark.parametrize(
    "body", ["", "\n\n", "null", "[]", '"hi"', '{"id": "x", "choi', "{}", "OK", ": ping\n\n"]
)
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain"])
async def test_an_answer_that_is_none_is_transient(
    connect: Connect, name: str, body: str, kind: str
) -> None:
    provider, _ = connect(name, [{"wire": {"body": body, "content_type": kind}}])

    assert type(await fault(provider)) is TransientError


@each
@pytest.mark.parametrize(
    "frame",
    [
        'data: {"half":\n\n',
        "data: [1, 2]\n\n",
        "data: 17\n\n",
        'data: {"choices": "none", "type": 5}\n\n',
        'data: {"choices": [null], "type": "content_block_delta", "index": "x", "delta": 3}\n\n',
        'data: {"choices": [{"delta": "x"}], "type": "message_start", "message": 3}\n\n',
        'data: {"choices": [{"delta": {"content": 5, "tool_calls": {"a": 1}}}]}\n\n',
        'data: {"choices": [{"delta": {"tool_calls": [null, 3, {"function": 4}]}}]}\n\n',
        'data: {"choices": [{"finish_reason": 7}], "usage": "much"}\n\n',
        "data: \xff\xfe\n\n",
        "data: " + "[" * 100_000 + "\n\n",
    ],
)
async def test_nonsense_in_the_stream_is_transient(connect: Connect, name: str, frame: str) -> None:
    provider, _ = connect(name, [{"wire": {"frames": [frame]}}])

    assert type(await fault(provider)) is TransientError


@each
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"status": "overflow"}, ContextOverflow),
        ({"status": 500}, TransientError),
        ({"status": 529, "type": "overloaded_error"}, TransientError),
        ({"status": 401, "type": "authentication_error"}, AuthenticationError),
        ({"status": 429, "type": "rate_limit_error"}, TransientError),
        ({"status": 400, "type": "invalid_request_error", "text": "bad schema"}, RefusedError),
        ({"status": 400, "type": "something_new", "text": "who knows"}, TransientError),
    ],
)
async def test_an_error_inside_the_stream_means_what_it_says(
    connect: Connect, name: str, error: dict[str, Any], kind: type[ProviderError]
) -> None:
    wire = {"error_after": {"chunks": 2, "error": error}}
    provider, _ = connect(name, [{"text": "Hello there", "wire": wire}])

    assert type(await fault(provider)) is kind


@each
async def test_two_final_chunks_make_one_message(connect: Connect, name: str) -> None:
    provider, _ = connect(name, [{"text": "Hello", "wire": {"two_finals": True}}])

    message = await answer(provider)

    assert (text_of(message), message.stop) == ("Hello", "end")


@each
async def test_a_message_has_no_usage_where_none_came(connect: Connect, name: str) -> None:
    provider, _ = connect(name, [{"text": "Hello", "wire": {"no_usage": True}}])

    message = await answer(provider)

    assert (text_of(message), message.usage) == ("Hello", None)


@each
async def test_empty_and_double_ids_are_mended_and_good_ones_kept(
    connect: Connect, name: str
) -> None:
    call = {"name": "read_file", "arguments": {"path": "a"}}
    ids = ["", "plain17", "plain17", ""]
    provider, _ = connect(name, [{"calls": [call] * 4, "wire": {"ids": ids}}])

    made = calls_of(await answer(provider))

    assert len(made) == 4
    assert len({call.id for call in made}) == 4
    assert all(call.id for call in made)
    assert made[1].id == "plain17"


@each
@pytest.mark.parametrize(
    ("name_sent", "name_read"),
    [
        ("\x1b]52;c;ZXZpbA==\x07\u202e", "__52_c_ZXZpbA____"),
        ("functions.read_file", "functions_read_file"),
        ("x" * 70, "x" * 64),
        ("", "unnamed"),
    ],
)
async def test_a_name_that_no_tool_can_have_is_mended(
    connect: Connect, name: str, name_sent: str, name_read: str
) -> None:
    provider, _ = connect(name, [{"calls": [{"name": name_sent, "arguments": {}}]}])

    (call,) = calls_of(await answer(provider))

    assert call.name == name_read
    assert call.own is None


@each
async def test_a_redirect_is_not_followed_with_the_key(connect: Connect, name: str) -> None:
    wire = {"status": 307, "body": "", "headers": {"location": "http://127.0.0.1:9/v1/x?token=1"}}
    provider, server = connect(name, [{"wire": wire}])

    error = await fault(provider)

    assert type(error) is RefusedError
    assert "http://127.0.0.1:9/v1/x" in str(error)
    assert "token" not in str(error)
    assert server.count == 1


@each
async def test_an_endless_error_is_not_read_to_its_end(connect: Connect, name: str) -> None:
    wire = {"status": 503, "body": "x" * 30_000_000, "headers": {"retry-after": "4"}}
    provider, _ = connect(name, [{"wire": wire}])

    error = await fault(provider)

    assert type(error) is TransientError
    assert (error.status, error.retry_after_s) == (503, 4.0)
    assert len(str(error)) < 700


@each
async def test_an_error_page_for_people_is_summed_up(connect: Connect, name: str) -> None:
    page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
    provider, _ = connect(name, [{"wire": {"status": 502, "body": page}}])

    error = await fault(provider)

    assert type(error) is TransientError
    assert "502 Bad Gateway" in str(error)
    assert "<html>" not in str(error)


@each
async def test_too_many_calls_are_refused(connect: Connect, name: str) -> None:
    provider, _ = connect(name, [{"calls": [{"name": "todo"}] * 129}])

    error = await fault(provider)

    assert type(error) is RefusedError
    assert "128" in str(error)


@each
@pytest.mark.parametrize("before", ["", "Bearer ", "x: ", "ab"])
async def test_a_key_that_the_server_echoes_in_base64_is_masked(
    connect: Connect, name: str, before: str
) -> None:
    key = "very-secret-key-17"
    quoted = base64.b64encode(f"{before}{key}\r\n".encode()).decode()
    provider, _ = connect(name, [{"error": {"status": 401, "text": quoted}}], api_key=key)

    error = await fault(provider)

    told = str(error) + repr(error) + repr(error.__cause__)
    assert "***" in told
    assert not any(quoted[at : at + 8] in told for at in range(12, len(quoted) - 12))


@each
async def test_a_key_that_the_server_echoes_is_masked(connect: Connect, name: str) -> None:
    text = "Incorrect API key provided: very-secret-key-17 (\x1b[31mred\x1b[0m)"
    reply = {"error": {"status": 401, "text": text}}
    provider, _ = connect(name, [reply], api_key="very-secret-key-17")

    error = await fault(provider)

    assert type(error) is AuthenticationError
    assert "very-secret-key-17" not in str(error) + repr(error) + repr(error.__cause__)
    assert "\x1b" not in str(error)
    assert error.setting == Setting(f"providers.{name}.api_key", KEYS[name])


@each
@pytest.mark.parametrize("key", ["ключ", "sk-a\nb", "sk-“x”"])
async def test_a_key_that_no_header_can_carry_is_reported(
    connect: Connect, name: str, key: str
) -> None:
    provider, server = connect(name, [{"text": "never"}], api_key=key)

    assert type(await fault(provider)) is AuthenticationError
    assert not server.requests


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_an_official_server_is_not_asked_keyless(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    provider = open_provider(name, "m")

    error = await fault(provider)

    assert type(error) is AuthenticationError
    assert KEYS[name] in str(error)
    assert "kode demo" in str(error)


@each
async def test_a_local_server_needs_no_key(connect: Connect, name: str) -> None:
    provider, _ = connect(name, [{"text": "free"}], api_key=None)

    assert text_of(await answer(provider)) == "free"


@each
@pytest.mark.parametrize("url", ["localhost:8080/v1", "ftp://host/v1", "http://", "http://[::1"])
async def test_a_url_that_is_none_is_refused(name: str, url: str) -> None:
    provider = open_provider(name, "m", base_url=url, api_key="k")

    assert type(await fault(provider)) in (RefusedError, TransientError)
    await provider.aclose()


@each
async def test_an_unknown_model_is_named(connect: Connect, name: str) -> None:
    text = "The model `some-model` does not exist or you do not have access to it."
    reply = {"error": {"status": 404, "text": text, "code": "model_not_found"}}
    provider, _ = connect(name, [reply])

    error = await fault(provider)

    assert type(error) is RefusedError
    assert "some-model" in str(error)
    assert "--model" in str(error)


@each
async def test_cancelling_closes_the_connection(connect: Connect, name: str) -> None:
    reply = {"wire": {"endless": True}}
    provider, server = connect(name, [reply, {"text": "next"}])
    arrived = asyncio.Event()
    task = asyncio.create_task(provider.reply(HELLO, lambda event: arrived.set()))
    await arrived.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await asyncio.to_thread(server.wait_for_disconnect)
    assert text_of(await answer(provider)) == "next"


@each
async def test_replies_share_one_connection(connect: Connect, name: str) -> None:
    provider, server = connect(name, [{"text": "one"}, {"text": "two"}, {"text": "three"}])

    for _ in range(3):
        await answer(provider)

    assert server.open_connections == 1


@each
@pytest.mark.parametrize("no_done", [False, True])
async def test_a_lingering_connection_does_not_hold_the_reply(
    connect: Connect, name: str, no_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.providers.stream.LAST_WORDS_S", 0.2)
    reply = {"text": "Hi", "wire": {"linger_s": 3600, "no_done": no_done}}
    provider, _ = connect(name, [reply], idle_timeout_s=600)

    async with asyncio.timeout(30):
        message = await answer(provider)

    assert (text_of(message), message.stop) == ("Hi", "end")


@each
async def test_a_server_that_does_not_stream_is_understood(connect: Connect, name: str) -> None:
    whole = {
        "azure": '{"object":"response","status":"completed","output":[{"type":"message","content":'
        '[{"type":"output_text","text":"Hi"}]},{"type":"function_call","call_id":"a",'
        '"name":"todo","arguments":"{}"}],"usage":{"input_tokens":3,"output_tokens":2}}',
        "openai": '{"choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":'
        '[{"id":"a","function":{"name":"todo","arguments":"{}"}}]},"finish_reason":"tool_calls"}],'
        '"usage":{"prompt_tokens":3,"completion_tokens":2}}',
        "anthropic": '{"type":"message","content":[{"type":"text","text":"Hi"},{"type":"tool_use",'
        '"id":"a","name":"todo","input":{}}],"stop_reason":"tool_use",'
        '"usage":{"input_tokens":3,"output_tokens":2}}',
    }[name]
    wire = {"body": whole, "content_type": "application/json"}
    provider, _ = connect(name, [{"wire": wire}])

    message = await answer(provider)

    assert text_of(message) == "Hi"
    assert [(c.id, c.name, c.arguments) for c in calls_of(message)] == [("a", "todo", "{}")]
    assert message.stop == "tool_calls"
    assert message.usage is not None
    assert message.usage.input_tokens == 3
