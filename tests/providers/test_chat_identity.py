"""Replies of Chat Completions are the same after a stream, a session's file and the next request:
byte for byte, with fields that kode does not know."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.messages import Message, calls_of, text_of, user_message
from kode.providers.chat import message_bytes
from kode.providers.encoding import encode_json
from kode.providers.provider import HttpProvider
from kode.session.entries import MessageEntry, line_of, parse_line
from tests.providers.chat_hosts import Object, answered, host, sent_by, streamed

TRACES = Path(__file__).parent / "traces"

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SAID = TEXT.filter(bool)
CUTS = st.lists(st.integers(1, 10), max_size=3)
NUMBERS = st.integers(-(2**53), 2**53)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT.map("k_{}".format), inner, max_size=3)
    ),
    max_leaves=5,
)
UNKNOWN = st.dictionaries(
    st.sampled_from(("x_new", "y_new", "extra_content")), VALUES.filter(lambda v: v is not None)
)
DETAILS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("reasoning.text", "reasoning.summary")), "text": SAID},
        optional={"signature": SAID, "format": st.just("google-gemini-v1"), "id": SAID},
    ),
    max_size=3,
)
CALL = st.builds(
    lambda name, arguments, in_function, beside: {
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments), **in_function},
        **beside,
    },
    st.sampled_from(("read_file", "todo")),
    st.dictionaries(TEXT, VALUES, max_size=2),
    st.dictionaries(st.just("z_new"), NUMBERS),
    UNKNOWN,
)


@st.composite
def replies(draw: st.DrawFn) -> Object:
    """An assistant message as a server means it, its fields in the order of the format."""
    thinking = draw(st.sampled_from(("reasoning_content", "reasoning", "reasoning_details", "")))
    calls = [
        {"id": f"call_{at}", **made} for at, made in enumerate(draw(st.lists(CALL, max_size=3)))
    ]
    content = draw(SAID) if not calls or draw(st.booleans()) else None
    fields: Object = {}
    if thinking == "reasoning_details":
        found = draw(DETAILS)
        fields[thinking] = [{**detail, "index": at} for at, detail in enumerate(found)]
    elif thinking:
        fields[thinking] = draw(TEXT)
    fields |= draw(UNKNOWN)
    made = {"tool_calls": calls} if calls else {}
    return {"role": "assistant", "content": content, **fields, **made}


def cut(text: str, sizes: list[int]) -> list[str]:
    """The text in pieces, which may split a character beyond the first plane in its halves."""
    units = text.encode("utf-16-be", "surrogatepass")
    pieces, at = [], 0
    for size in sizes:
        pieces.append(units[at : at + 2 * size])
        at += 2 * size
    pieces.append(units[at:])
    return [piece.decode("utf-16-be", "surrogatepass") for piece in pieces if piece]


def deltas_of(reply: Object, sizes: list[int]) -> list[Object]:
    """A stream of the reply."""
    found: list[Object] = [{"role": "assistant", "content": ""}]
    for name, value in reply.items():
        if name in ("reasoning_content", "reasoning", "content") and value is not None:
            found += [{name: piece} for piece in cut(value, sizes) or [""]]
        elif name == "reasoning_details":
            found += [{name: []}]
            for detail in value:
                pieces = cut(detail["text"], sizes)
                rest = {key: each for key, each in detail.items() if key != "signature"}
                found += [{name: [{**rest, "text": piece}]} for piece in pieces]
                found += [{name: [detail | {"text": ""}]}] if "signature" in detail else []
        elif name == "tool_calls":
            for index, call in enumerate(value):
                function = call["function"]
                opening = {**call, "index": index, "function": {**function, "arguments": ""}}
                found += [{name: [opening]}]
                for piece in cut(function["arguments"], sizes):
                    found += [{name: [{"index": index, "function": {"arguments": piece}}]}]
        elif name not in ("role", "content"):
            found += [{name: value}]
    return found


def on_disk(message: Message) -> Message:
    """The message, written to a session's file and read again."""
    fields = {name: getattr(message, name) for name in asdict(message)}
    entry = parse_line(line_of(MessageEntry(**fields)))
    assert isinstance(entry, MessageEntry)
    return entry


def by_value(value: Any) -> Any:
    """Details have their signature last, as it came last; else nothing moves."""
    details = value.get("reasoning_details")
    if not details:
        return value
    last = [
        {key: each for key, each in detail.items() if key != "signature"}
        | {key: each for key, each in detail.items() if key == "signature"}
        for detail in details
    ]
    return {**value, "reasoning_details": last}


@given(replies(), CUTS)
def test_a_reply_is_the_same_after_stream_disk_and_request(reply: Object, sizes: list[int]) -> None:
    provider = host("vllm", "some-model")

    message = on_disk(streamed(provider, deltas_of(reply, sizes)))

    assert message_bytes(message, provider._form) == encode_json(by_value(reply))


@pytest.mark.parametrize(
    "name", ["openai_text_stream", "openai_tools_auto_stream", "openai_parallel_tools"]
)
def test_recorded_replies_go_back_as_they_came(name: str) -> None:
    frames = "".join(json.loads((TRACES / f"{name}.json").read_text())["stream"]).split("\n\n")
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames if "{" in frame]
    provider = host("llamacpp", "some-model")
    message = on_disk(streamed(provider, [chunk for chunk in chunks if chunk.get("choices")]))

    messages = sent_by(provider, [user_message("go"), message, answered(message)])["messages"]

    assert messages[1] == _whole(chunks)
    assert all(call.own is None for call in calls_of(message))


def _whole(chunks: list[Object]) -> Object:
    """The message of a recorded stream, put together by the format's own rule alone."""
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]
    text = "".join(delta.get("content") or "" for delta in deltas)
    calls: dict[int, Object] = {}
    for piece in (piece for delta in deltas for piece in delta.get("tool_calls", ())):
        at = piece["index"]
        call = calls.setdefault(at, {**piece, "function": {**piece["function"], "arguments": ""}})
        call["function"]["arguments"] += piece["function"].get("arguments", "")
    made = [{k: v for k, v in call.items() if k != "index"} for call in calls.values()]
    return {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}


JUNK = VALUES | st.lists(st.dictionaries(st.sampled_from(("type", "text", "thinking")), VALUES))
DELTAS = st.lists(
    st.dictionaries(
        st.sampled_from(
            "content reasoning reasoning_content reasoning_details tool_calls annotations x_new "
            "function_call extra_content".split()
        ),
        JUNK,
    ),
    max_size=4,
)


@given(DELTAS, st.sampled_from(("vllm", "gemini", "mistral", "openrouter")))
def test_no_shape_of_a_delta_breaks_a_reply(deltas: list[Object], name: str) -> None:
    provider = host(name, "some-model")
    finish = {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}

    message = on_disk(streamed(provider, [*deltas, finish]))

    json.loads(b"[" + message_bytes(message, provider._form) + b"]")
    assert text_of(message).endswith("x")


def test_no_own_form_is_kept_where_plain_suffices() -> None:
    provider: HttpProvider = host("deepseek", "deepseek-v4-pro")
    message = streamed(provider, [{"reasoning_content": "Hm."}, {"content": "Yes."}])

    assert [part.own for part in message.parts] == [None, None]  # type: ignore[union-attr]
