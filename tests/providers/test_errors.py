"""What servers refuse, in their words, and what kode makes of it: an error that says what to do, or
another request without what was refused."""

import email.utils
import json
import ssl
import time
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from kode.errors import (
    AuthenticationError,
    ContextOverflow,
    ProviderError,
    RefusedError,
    Setting,
    ThinkingRefused,
    TransientError,
)
from kode.events import Notice
from kode.messages import Message, Text, Thinking, ToolCall, text_of, user_message
from kode.provider import Request, ToolSpec
from kode.providers.errors import (
    Endpoint,
    convert_error,
    find_rule,
    read_table,
    retry_after_s,
    status_error,
    translate_errors,
)
from kode.providers.request import repair_request
from kode.registry import provider_row
from tests.providers.conftest import Connect
from tests.providers.line import Line, Object, attached, recorded, results_of, target_of
from tests.tables import for_each

ENDPOINT = Endpoint(
    base_url="https://user:pw@host/v1?key=abc",
    model="some-model",
    used={"api_key": Setting("api_key", "OPENAI_API_KEY")},
    api_key="sekret-key",
)
FAULTS: dict[str, tuple[type[ProviderError], ...]] = {
    "overflow": (ContextOverflow,),
    "no_credit": (RefusedError,),
    "bad_key": (AuthenticationError,),
    "loading": (TransientError,),
    "bound_thinking": (ThinkingRefused,),
    "no_model": (RefusedError,),
}
KINDS: dict[str, type[ProviderError]] = {
    "thinking": ThinkingRefused,
    "setting": RefusedError,
    "refused": RefusedError,
    "overflow": ContextOverflow,
    "transient": TransientError,
}


def error_of(status: int | None, body: Any, **endpoint: Any) -> ProviderError:
    body = {"error": {"message": body}} if isinstance(body, str) else body
    return status_error(status, body, {}, replace(ENDPOINT, **endpoint))


# ── recorded words ───────────────────────────────────────────────────────────────────────────


@for_each("case", recorded("faults"))
def test_a_fault_is_recognised_in_the_words_of_each_server(case: Object) -> None:
    for status in case["statuses"]:
        rule = find_rule(status, case["message"])

        assert (rule.means if rule else None) == case["fault"]
        kinds = FAULTS.get(case["fault"], (RefusedError, TransientError))
        assert type(error_of(status, case["message"])) in kinds


@for_each("case", recorded("refusals"))
def test_a_refusal_says_what_to_change(case: Object) -> None:
    """`kind` is one of `KINDS`, `setting:NAME` for a setting; the sentence names `names`."""
    error = error_of(case["status"], case["body"], api=case["api"])

    kind, _, setting = case["kind"].partition(":")
    assert type(error) is KINDS[kind]
    assert getattr(error, "part", "") == setting
    assert case["names"] in str(error)


@for_each("case", recorded("overflows"))
def test_an_overflow_names_the_window_and_the_options_of_servers(case: Object) -> None:
    error = error_of(400, case["body"], base_url="http://127.0.0.1/v1")

    assert isinstance(error, ContextOverflow)
    assert error.window == case["window"]
    for option in ("context.window", "`-c`", "`num_ctx`", "`--max-model-len`"):
        assert option in str(error)


def test_every_rule_has_a_recorded_case() -> None:
    table = read_table()
    cases = [case for name in ("refusals", "chat_refusals", "faults") for case in recorded(name)]
    said = [json.dumps(one.get("body", one.get("message")), ensure_ascii=False) for one in cases]
    plain = [text.replace('\\"', '"') for text in said]
    alone = [rule for rule in table.rules if not any(map(rule.search, plain))]
    assert alone == []
    assert table.parts.keys() <= {rule.means for rule in table.rules}


@for_each(
    ("status", "body", "kind"),
    [
        (429, "Rate limit reached for tokens per min (TPM): Limit 30000", TransientError),
        (429, "Request too large for gpt-4o on tokens per min", ContextOverflow),
        (429, "You exceeded your current quota, check your plan and billing", RefusedError),
        (404, "File Not Found", RefusedError),
        (418, "x", RefusedError),
        # Inside a stream the object says the status.
        (None, {"type": "error", "error": {"type": "overloaded_error"}}, TransientError),
        (None, {"error": {"code": 401, "message": "no"}}, AuthenticationError),
        (None, {"error": {"code": "429", "message": "slow"}}, TransientError),
        (None, {"code": 500, "type": "server_error", "message": "x"}, TransientError),
        (None, {"error": {"type": "never_heard_of", "message": "x"}}, TransientError),
    ],
)  # fmt: skip
def test_statuses_and_words_decide_the_kind_of_error(
    status: int | None, body: Any, kind: type[ProviderError]
) -> None:
    assert type(error_of(status, body)) is kind


@for_each(
    "body",
    [
        {"error": "went wrong"},
        {"message": "went wrong"},
        {"detail": [{"msg": "went wrong"}]},
        [{"error": {"message": "went wrong"}}],
        {"error": {"error": 1, "msg": "went wrong"}},
    ],
)
def test_the_words_are_found_in_every_shape(body: Any) -> None:
    assert "went wrong" in str(error_of(400, body))


@for_each("body", [None, 5, [], {}, {"error": {}}, {"error": {"message": {}}}, ""])
def test_a_body_that_says_nothing_still_makes_a_sentence(body: Any) -> None:
    assert str(status_error(503, body, {}, ENDPOINT)).endswith(".")


@for_each(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "60", "retry-after-ms": "250"}, 0.25),
        *(({"retry-after": word}, None) for word in ("-3", "nan", "inf", "soon", "")),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_the_retry_after_header_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds
    soon = email.utils.formatdate(time.time() + 100, usegmt=True)
    assert 50 < (retry_after_s({"retry-after": soon}) or 0) <= 101


# ── connections ──────────────────────────────────────────────────────────────────────────────


def connection_error(kind: type[Exception], text: str, cause: Exception | None = None) -> Exception:
    error = kind(text)
    error.__cause__ = cause
    return error


WRONG_VERSION = "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"
NO_WAY = httpx2.ConnectError("All connection attempts failed")
BROKEN_OFF = ssl.SSLEOFError(8, "EOF occurred in violation of protocol (_ssl.c:2427)")


@for_each(
    ("error", "words"),
    [
        *((error, "") for error in (ValueError("x"), AssertionError(), OSError(5, "I/O"))),
        (connection_error(httpx2.ConnectError, WRONG_VERSION, ssl.SSLError(1, WRONG_VERSION)),
         "(wrong version number). If the server speaks plain HTTP, write http://"),
        (connection_error(httpx2.ReadError, "EOF", BROKEN_OFF), "was lost"),
        (httpx2.ConnectError("[Errno 111] Connection refused"), "Connection refused)"),
        (httpx2.RemoteProtocolError("Server disconnected."), "was lost (Server disconnected). If"),
        (httpx2.RemoteProtocolError(""), "was lost (RemoteProtocolError). If it keeps happening"),
    ],
)  # fmt: skip
def test_a_lost_connection_says_why_in_words(error: Exception, words: str) -> None:
    found = convert_error(error, ENDPOINT)

    assert type(found) is TransientError
    assert words in str(found)
    assert "Errno" not in str(found)


@for_each(
    ("error", "exempt", "words"),
    [
        *((e, "", "NO_PROXY") for e in (NO_WAY, ImportError("socksio"), httpx2.InvalidURL("x"))),
        (NO_WAY, "host", "No server answers"),
        (FileNotFoundError(2, "No such file"), "", "SSL_CERT_FILE"),
    ],
)
def test_a_wrong_variable_of_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, error: Exception, exempt: str, words: str
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", exempt)
    assert words in str(convert_error(error, ENDPOINT))


def test_keys_are_never_shown_and_long_answers_are_one_line() -> None:
    with pytest.raises(ProviderError) as caught, translate_errors(replace(ENDPOINT)):
        raise ValueError("header was Bearer sekret-key and sk-proj-abcdefghijklmnop")
    quoted = str(error_of(400, "bad: authorization: bearer eyJhbGciOi.J9-x_y=, try again"))
    long = str(error_of(400, "a\nb\x1b[2J" + "x" * 10_000))

    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {quoted}"
    for secret in ("sekret-key", "abcdefghij", "pw@", "key=abc", "eyJ", "J9-x_y"):
        assert secret not in shown
    assert caught.value.__suppress_context__
    assert "sekret" not in repr(ENDPOINT)
    assert "try again" in quoted
    assert len(long) < 700
    assert not {*long} & {"\n", "\x1b"}


def test_only_a_server_that_says_so_is_loading() -> None:
    loading = [error_of(503, words).loading for words in ("Loading model", "overloaded")]  # type: ignore[attr-defined]

    assert loading == [True, False]


# ── requests repaired ────────────────────────────────────────────────────────────────────────

CHAT_CASES = recorded("chat_refusals")


@for_each("case", CHAT_CASES)
def test_a_refusal_of_chat_has_kind_and_setting(case: Object) -> None:
    row = provider_row(case["row"])
    assert row is not None
    url, model = row.own_url, case.get("model", "m")
    endpoint: Object = {"name": row.name, "base_url": url, "model": model, "api": "chat"}
    refused = error_of(case["status"], case["body"], **endpoint)
    assert isinstance(refused, RefusedError)

    repair = repair_request(refused, Request(system="", messages=[]), target_of(row, model))

    assert type(refused).__name__ == case.get("kind", "RefusedError")
    assert (*(repair[0].parts if repair else ()), "")[0] == case.get("left_out", "")
    assert case.get("names", "") in str(refused)


def refusing(case: str) -> Object:
    """The reply of a server that refuses as in a case of the file."""
    found = next(each for each in CHAT_CASES if each["of"] == case)
    return refused_with(found["body"], found["status"])


def refused_with(body: Any, status: int = 400) -> Object:
    return {"wire": {"status": status, "body": json.dumps(body), "content_type": "text/json"}}


def refusal(message: str, param: str | None = None, code: str | None = None) -> Object:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return refused_with({"error": error})


async def bodies_around(line: Line, refused: Object, *messages: Message, **request: Any) -> Any:
    """The request that was refused, and that without the part, as which all later ones are."""
    said = [await line.reply([refused, {"text": "one"}, {"text": "two"}], *messages, **request)]
    said.append(await line.again(*messages, **request))
    before, after, later = line.bodies
    assert after == later
    assert list(map(text_of, said)) == ["one", "two"]
    return before, after


UNSUPPORTED = "Unsupported parameter: '{0}' is not supported with this model."
VERIFIED = "Your organization must be verified to generate reasoning summaries."
FREE = ToolSpec(name="patch", description="d", parameters={}, grammar="start: /x/")
ALL: Object = {"system": "s", "tools": (FREE,), "conversation": "c", "small": True}
ALL |= {"search": True, "effort": "high"}
REASONS = {"efforts": ("low", "high"), "searches": True, "cache_marks": True}
OPENING = Message(role="user", parts=(Text(text="[folder]", source="opening"), Text(text="Read a")))


@for_each(
    ("name", "refused", "gone", "kept"),
    [
        ("vllm", refusing("xAI, effort"), "chat_template_kwargs", "stream_options"),
        ("vllm", refusing("OpenAI, temperature"), "temperature", "chat_template_kwargs"),
        ("vllm", refusing("Mistral, usage"), "stream_options", "chat_template_kwargs"),
        ("vllm", refusing("OpenAI behind a proxy, limit"), "max_tokens", "max_completion_tokens"),
        ("azure", refusal("Unsupported value: 'high' is not supported with the 'some-model' model. "
                          "Supported values are: 'low' and 'medium'.", "reasoning.effort",
                          "unsupported_value"), "effort", "store"),
        ("azure", refusal(VERIFIED, "reasoning.summary", "unsupported_value"), "summary", "effort"),
        ("azure", refusal("Encrypted content is not supported with this model.", "include"),
         "reasoning.encrypted_content", "effort"),
        ("azure", refusal("Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key"),
         "prompt_cache_key", "effort"),
        ("azure", refusal(UNSUPPORTED.format("prompt_cache_breakpoint"), "prompt_cache_breakpoint",
                          "unsupported_parameter"), "prompt_cache_breakpoint", "effort"),
        ("azure", refusal("Hosted tool 'web_search' is not supported with m.", "tools"),
         "web_search", "effort"),
        ("azure", refusal("Invalid value: 'developer'. Supported are: 'user'.", "input[0]"),
         "developer", "effort"),
        ("azure", refusal("Invalid value: 'custom'.", "tools[0].type"), "custom", "effort"),
    ],
)  # fmt: skip
async def test_a_refused_part_is_left_out_from_then_on(
    connect: Connect, name: str, refused: Object, gone: str, kept: str
) -> None:
    line = connect(name, "gpt-x", facts=REASONS)

    before, after = map(json.dumps, await bodies_around(line, refused, OPENING, **ALL))

    assert f'"{gone}"' in before
    assert f'"{gone}"' not in after.replace("web_search_call", "")
    assert f'"{kept}"' in after
    assert len(line.shown(Notice)) == 1


HI = user_message("Hi")
PAST_CALL = ToolCall(id="1", name="look", arguments="{}")
FOREIGN = Message(role="assistant", parts=(PAST_CALL,), stop="tool_calls", origin="another")
CALLED_BEFORE = (HI, FOREIGN, results_of(FOREIGN))
OWN_PARTS = (Thinking(text="Hm.", own={"reasoning_content": "Hm.", "x_new": 1}), Text(text="Yes."))
OWN = Message(role="assistant", parts=OWN_PARTS, stop="end", origin="chat:vllm/some-model")
BARE: Object = {"role": "assistant", "content": "Yes."}
TOOLS = tuple(ToolSpec(name=n, description="", parameters={}) for n in ("good", "bad", "x"))
STAND_IN = {"google": {"thought_signature": "skip_thought_signature_validator"}}
TOO_LARGE = refusal("max_tokens is too large: 99. It supports at most 50 tokens")


@for_each(
    ("refused", "messages", "request_of", "read", "before", "after"),
    [
        (TOO_LARGE, (HI,), {"max_output_tokens": 99}, lambda body: body["max_tokens"], 99, 50),
        # A tool whose schema is wrong.
        *((refusal(words), (HI,), {"tools": TOOLS},
           lambda body: [tool["function"]["name"] for tool in body["tools"]],
           ["good", "bad", "x"], ["good", "x"])
          for words in (
              "tools.1.custom.input_schema: JSON schema is invalid.",
              "Invalid schema for function 'bad': In context=(), x is not valid.",
              "* GenerateContentRequest.tools[0].function_declarations[1].parameters.x: missing.",
              "Unable to submit request because `bad` functionDeclaration `parameters.y` schema.")),
        # What the past has too much, and what it lacks.
        (refusing("OpenAI, a field of a message"), (HI, OWN, HI), {},
         lambda body: body["messages"][1], {**BARE, "reasoning_content": "Hm.", "x_new": 1}, BARE),
        *((refusing(f"{vendor}, thinking"), CALLED_BEFORE, {},
           lambda body: body["messages"][1].get("reasoning_content"), None, " ")
          for vendor in ("Kimi", "DeepSeek")),
        (refusing("Gemini, signature"), CALLED_BEFORE, {},
         lambda body: body["messages"][1]["tool_calls"][0].get("extra_content"), None, STAND_IN),
    ],
)  # fmt: skip
async def test_a_refused_request_is_changed_from_then_on(
    connect: Connect, refused: Object, messages: Any, request_of: Any, read: Any, before: Any,
    after: Any,
) -> None:  # fmt: skip
    bodies = await bodies_around(connect("vllm"), refused, *messages, **request_of)

    assert list(map(read, bodies)) == [before, after]


SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "x"}
CALLED |= {"arguments": "{}"}
THOUGHT = Message(
    role="assistant",
    parts=(Thinking(own=SEALED), ToolCall(id="call_1", name="x", arguments="{}", own=CALLED)),
    stop="tool_calls",
    origin="responses:azure/some-model",
)


async def test_moved_replies_lose_thinking_once_it_was_refused(connect: Connect) -> None:
    line, results = connect("azure"), results_of(THOUGHT)
    new = replace(THOUGHT, parts=tuple(replace(p) for p in THOUGHT.parts))
    history = (user_message("a"), replace(THOUGHT, moved=True), results, user_message("b"), new)
    history = (*history, results)

    unverified = refusal("x", code="invalid_encrypted_content")
    line.server.play([{"text": "ok"}, unverified, {"text": "ok"}])
    await line.again(*history)
    with pytest.raises(ThinkingRefused):
        await line.again(*history)
    await line.again(*history)

    kinds = [[item["type"] for item in body["input"]] for body in line.bodies]
    assert [found.count("reasoning") for found in kinds] == [2, 2, 1]


async def test_pictures_that_llama_cpp_refuses_in_a_result_follow_it(
    connect: Connect, tmp_path: Any
) -> None:
    line = connect("azure")
    shown = attached(tmp_path, call_id="call_1")
    results = replace(results_of(THOUGHT), parts=(*results_of(THOUGHT).parts, shown))
    refused = refusal("Output of tool call should be 'Input text'")

    await line.reply([refused, {"text": "ok"}], user_message("a"), THOUGHT, results)

    *_, result, after = line.bodies[1]["input"]
    assert (result["output"], after["role"]) == ("hi", "user")


@for_each(
    ("name", "script", "kind", "named", "requests"),
    [
        # The same refusal twice, and refusals that nothing helps against.
        ("vllm", [refusing("xAI, effort")] * 2, RefusedError, "", 2),
        ("vllm", [TOO_LARGE] * 2, RefusedError, "", 2),
        ("openrouter", [refusing("OpenAI, tools with effort")], RefusedError,
         "providers.openrouter.api", 1),
        ("openrouter", [refusing("Claude at OpenRouter, binding")], ThinkingRefused, "", 1),
        ("llamacpp", [{"error": {"status": 404}}], RefusedError, "providers.llamacpp.api", 1),
    ],
)  # fmt: skip
async def test_a_refusal_that_stays_is_an_error(
    connect: Connect, name: str, script: Any, kind: type[ProviderError], named: str, requests: int
) -> None:
    api = "responses" if name == "llamacpp" else "chat"
    line = connect(name, "anthropic/claude-sonnet-5.5", api=api)

    with pytest.raises(RefusedError) as caught:
        await line.reply(script, effort="high")

    assert type(caught.value) is kind
    assert named in str(caught.value)
    assert len(line.server.requests) == requests


async def test_an_overflow_sets_the_window_that_the_server_named(connect: Connect) -> None:
    line = connect("openai")
    words = "maximum context length is 2048 tokens"
    with pytest.raises(ContextOverflow):
        await line.reply({"error": {"status": 400, "text": words}})

    assert line.provider.info.context_window == 2048
    assert line.provider.info.max_output_tokens <= 1024
