"""What servers say, and what kode makes of it."""

import email.utils
import json
import ssl
import time
from pathlib import Path
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
from kode.providers.errors import (
    Endpoint,
    classify,
    from_status,
    plain_reason,
    retry_after_s,
    translate_errors,
)
from kode.providers.refusals import find_rule
from tests.tables import for_each

ENDPOINT = Endpoint(
    base_url="https://user:pw@host/v1?key=abc",
    model="some-model",
    used={"api_key": Setting("api_key", "OPENAI_API_KEY")},
    api_key="sekret-key",
)


LINES = (Path(__file__).parent / "data" / "faults.jsonl").read_text(encoding="utf-8").splitlines()
CASES: list[dict[str, Any]] = [json.loads(line) for line in LINES]
KINDS: dict[str, tuple[type[ProviderError], ...]] = {
    "overflow": (ContextOverflow,),
    "no_credit": (RefusedError,),
    "bad_key": (AuthenticationError,),
    "loading": (TransientError,),
    "bound_thinking": (ThinkingRefused,),
    "no_model": (RefusedError,),
}


@for_each("case", CASES)
def test_a_fault_is_recognised_in_the_words_of_each_server(case: dict[str, Any]) -> None:
    for status in case["statuses"]:
        error = from_status(status, {"error": {"message": case["message"]}}, {}, ENDPOINT)

        rule = find_rule(status, case["message"])
        assert (rule.means if rule else None) == case["fault"]
        assert type(error) in KINDS.get(case["fault"], (RefusedError, TransientError))


@for_each(
    ("status", "message", "kind"),
    [
        (429, "Too many tokens, please wait before trying again.", TransientError),
        (429, "Rate limit reached for tokens per min (TPM): Limit 30000", TransientError),
        (429, "Request too large for gpt-4o on tokens per min", ContextOverflow),
        (429, "You exceeded your current quota, check your plan and billing", RefusedError),
        (400, "Your credit balance is too low to access the API.", RefusedError),
        (400, "API key not valid. Please pass a valid API key.", AuthenticationError),
        (400, "max_tokens is too large: 100000. It supports at most 16384 tokens", RefusedError),
        (400, "messages: at least one message is required", RefusedError),
        (404, 'model "qwen9" not found, try pulling it first', RefusedError),
        (404, "model: claude-nope", RefusedError),
        (404, "File Not Found", RefusedError),
        (408, "Request Timeout", TransientError),
        (409, "Conflict", TransientError),
        (425, "Too Early", TransientError),
        (500, "context canceled", TransientError),
        (502, "<html><title>502 Bad Gateway</title></html>", TransientError),
        (418, "teapot", RefusedError),
        (301, "moved", RefusedError),
    ],
)
def test_statuses_and_words_decide_the_kind_of_error(
    status: int, message: str, kind: type[ProviderError]
) -> None:
    error = from_status(status, {"error": {"message": message}}, {}, ENDPOINT)

    assert type(error) is kind
    assert error.status == status


@for_each(
    "body",
    [
        {"error": {"message": "went wrong"}},
        {"error": "went wrong"},
        {"message": "went wrong"},
        {"detail": "went wrong"},
        {"detail": [{"msg": "went wrong"}]},
        [{"error": {"message": "went wrong"}}],
        {"error": {"error": 1, "msg": "went wrong"}},
        "went wrong",
    ],
)
def test_the_words_are_found_in_every_shape(body: Any) -> None:
    assert "went wrong" in str(from_status(400, body, {}, ENDPOINT))


@for_each("body", [None, 5, [], {}, {"error": {}}, {"error": {"message": {}}}, ""])
def test_a_body_that_says_nothing_still_makes_a_sentence(body: Any) -> None:
    assert str(from_status(503, body, {}, ENDPOINT)).endswith(".")


@for_each(
    ("body", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, TransientError),
        ({"error": {"code": 401, "message": "no"}}, AuthenticationError),
        ({"error": {"code": "429", "message": "slow"}}, TransientError),
        ({"error": {"status": "INVALID_ARGUMENT", "message": "no"}}, RefusedError),
        ({"code": 500, "type": "server_error", "message": "x"}, TransientError),
        ({"error": {"type": "never_heard_of", "message": "x"}}, TransientError),
    ],
)
def test_an_error_object_inside_a_stream_has_its_status(
    body: Any, kind: type[ProviderError]
) -> None:
    assert type(from_status(None, body, {}, ENDPOINT)) is kind


@for_each(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "60", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_the_retry_after_header_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


def test_retry_after_as_a_date_is_counted_from_now() -> None:
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    seconds = retry_after_s({"retry-after": date})

    assert seconds is not None
    assert 50 < seconds <= 101


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), AssertionError(), RuntimeError("y"), OSError(5, "I/O"), KeyError("z")],
)
def test_errors_of_any_family_become_transient(error: Exception) -> None:
    assert type(classify(error, ENDPOINT)) is TransientError


def test_plain_http_behind_an_https_url_is_named() -> None:
    reason = "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"
    error = httpx2.ConnectError(reason)
    error.__cause__ = ssl.SSLError(1, reason)
    said = str(classify(error, ENDPOINT))

    assert "(wrong version number)" in said
    assert "http://" in said


def test_an_encrypted_stream_that_breaks_off_is_a_lost_connection() -> None:
    error = httpx2.ReadError("EOF")
    error.__cause__ = ssl.SSLEOFError(8, "EOF occurred in violation of protocol (_ssl.c:2427)")

    assert "was lost" in str(classify(error, ENDPOINT))


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("Server disconnected without a response.", "(Server disconnected without a response)"),
        ("", "(RemoteProtocolError)"),
    ],
)
def test_a_lost_connection_says_why_in_words(reason: str, shown: str) -> None:
    said = str(classify(httpx2.RemoteProtocolError(reason), ENDPOINT))

    assert f"was lost {shown}. If it keeps happening" in said


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("_ssl.c:989: The handshake operation timed out", "The handshake operation timed out"),
        ("[Errno 111] Connection refused", "Connection refused"),
        ("[SSL] record layer failure (_ssl.c:1006)", "record layer failure"),
    ],
)
def test_a_reason_is_shown_without_numbers_of_python(text: str, plain: str) -> None:
    assert plain_reason(text) == plain


@pytest.mark.parametrize(("exempt", "is_named"), [("", True), ("host", False)])
def test_a_proxy_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, exempt: str, is_named: bool
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", exempt)
    with pytest.raises(TransientError) as caught, translate_errors(ENDPOINT):
        raise httpx2.ConnectError("All connection attempts failed")

    assert ("Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY" in str(caught.value)) is is_named


def test_keys_and_secrets_of_the_url_are_never_shown() -> None:
    with pytest.raises(ProviderError) as caught, translate_errors(ENDPOINT):
        raise ValueError("header was Bearer sekret-key and sk-proj-abcdefghijklmnop")

    error = caught.value
    shown = f"{error} {error!r} {error.__cause__!r}"
    assert not any(secret in shown for secret in ("sekret-key", "abcdefghij", "pw@", "key=abc"))
    assert error.__suppress_context__
    assert "sekret" not in repr(ENDPOINT)


def test_another_bearer_token_that_a_server_quotes_is_masked() -> None:
    message = "bad header: authorization: bearer eyJhbGciOi.J9-x_y=, try again"
    error = str(from_status(400, {"error": {"message": message}}, {}, ENDPOINT))

    assert "eyJ" not in error
    assert "J9-x_y" not in error
    assert "try again" in error


def test_long_answers_are_clipped_to_one_line() -> None:
    error = from_status(400, {"error": {"message": "a\nb\x1b[2J" + "x" * 10_000}}, {}, ENDPOINT)

    assert len(str(error)) < 700
    assert "\n" not in str(error)
    assert "\x1b" not in str(error)


@pytest.mark.parametrize(
    ("model", "names"),
    [("gpt-5-codex", "gpt-5.6-sol"), ("claude-sonnet-4-5", "claude-sonnet-5-5")],
)
def test_a_retired_model_is_refused_naming_its_successor(model: str, names: str) -> None:
    endpoint = Endpoint(base_url="https://host/v1", model=model)
    error = from_status(404, {"error": {"code": "model_not_found"}}, {}, endpoint)

    assert isinstance(error, RefusedError)
    assert model in str(error)
    assert names in str(error)
    assert "--model" in str(error)
