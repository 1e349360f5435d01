"""A reply is the same after a stream, a session's file and the next request: byte for byte, with
parts and fields that kode does not know. The streams are those of the strict server."""

import itertools
import json
from typing import Any

from hypothesis import assume, given, strategies as st

from kode.credentials import redact
from kode.messages import (
    Message,
    ServerItem,
    Text,
    calls_of,
    text_of,
    user_message,
)
from kode.providers.request import encode_json
from tests.providers.conftest import Connect
from tests.providers.line import Line, Object, from_disk, results_of, shared_line
from tests.providers.test_replies import chat, chunk
from tests.strict_server import chat_stream, message_stream, response_stream
from tests.strict_server.replies import Part
from tests.tables import for_each

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
SAID = TEXT.filter(str.strip)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
UNKNOWN = st.dictionaries(st.sampled_from(("x_new", "depth", "caller")), VALUES, max_size=2)
SEALED = st.text("abcdefghijkl+/=", min_size=1, max_size=30)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=3)


def with_unknown(**fields: Any) -> st.SearchStrategy[Object]:
    known = {
        name: value if isinstance(value, st.SearchStrategy) else st.just(value)
        for name, value in fields.items()
    }
    return st.builds(lambda a, b: {**a, **b}, st.fixed_dictionaries(known), UNKNOWN)


async def goes_back(line: Line, frames: Any, expected: bytes) -> None:
    message = from_disk(await line.play(*frames))
    assume(redact(expected.decode()) == expected.decode())  # a credential would be masked

    after = results_of(message) if calls_of(message) else user_message("on")
    await line.sent(user_message("go"), message, after)

    assert expected in line.server.requests[-1].body


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────

FUNCTION = st.builds(
    lambda name, arguments: {"name": name, "arguments": json.dumps(arguments)},
    st.sampled_from(("read_file", "todo")),
    OBJECTS,
)
CHAT_CALL = st.builds(
    lambda function, unknown: {"type": "function", "function": function, **unknown},
    FUNCTION,
    UNKNOWN.map(lambda fields: {key: value for key, value in fields.items() if value is not None}),
)
DETAIL = st.fixed_dictionaries(
    {"type": st.sampled_from(("reasoning.text", "reasoning.summary")), "text": SAID},
    optional={"format": st.just("google-gemini-v1"), "id": SAID, "signature": SAID},
)


@st.composite
def chat_messages(draw: st.DrawFn) -> Object:
    """An assistant's message, its fields in the order in which they come."""
    calls = draw(st.lists(CHAT_CALL, max_size=3))
    calls = [{"id": f"call_{at}", **made} for at, made in enumerate(calls)]
    content = draw(SAID) if not calls or draw(st.booleans()) else None
    thinking = draw(st.sampled_from(("reasoning_content", "reasoning", "reasoning_details", "")))
    fields: Object = {thinking: draw(SAID)} if thinking else {}
    if thinking == "reasoning_details":
        details = draw(st.lists(DETAIL, min_size=1, max_size=3))
        # As they come last, text and signature go back last.
        last = [
            {key: one.pop(key) for key in ("text", "signature") if key in one} for one in details
        ]
        pairs = enumerate(zip(details, last, strict=True))
        fields = {thinking: [{**one, "index": at, **ends} for at, (one, ends) in pairs]}
    made = {"tool_calls": calls} if calls else {}
    unknown = draw(UNKNOWN)
    more = {**fields, **unknown} if thinking == "reasoning_content" else {**unknown, **fields}
    return {"role": "assistant", "content": content, **more, **made}


@shared_line
@given(reply=chat_messages())
async def test_a_message_of_chat_goes_back_as_it_came(reuse: Connect, reply: Object) -> None:
    reply = {key: value for key, value in reply.items() if value is not None or key == "content"}
    finish = "tool_calls" if "tool_calls" in reply else "stop"
    choice = {"message": reply, "finish_reason": finish}
    whole = {"id": "x", "model": "m", "choices": [choice], "usage": {}}

    line = reuse("openai", official=True, api="chat")
    await goes_back(line, chat_stream.events({}, whole, "vllm"), encode_json(reply))


NAMES = (
    "content reasoning reasoning_content reasoning_details tool_calls annotations x_new "
    "function_call extra_content item output_index item_id delta part index content_block usage"
).split()
KINDS = (
    "response.output_item.added response.output_item.done response.output_text.delta response.new "
    "response.reasoning_summary_part.added content_block_start content_block_delta ping"
).split()
JUNK = VALUES | st.lists(st.dictionaries(st.sampled_from(("type", "text", "thinking")), VALUES))
SAID_X = [{"type": "output_text", "text": "x"}]
X_ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "content": SAID_X}


@shared_line
@given(
    odd=st.lists(st.dictionaries(st.sampled_from(NAMES), JUNK), max_size=4),
    kind=st.sampled_from(KINDS),
    name=st.sampled_from(("vllm", "gemini", "mistral", "openrouter", "azure", "anthropic")),
)
async def test_no_shape_of_an_event_breaks_a_reply(
    reuse: Connect, odd: list[Object], kind: str, name: str
) -> None:
    good: Object = {
        "azure": response_stream.events({"status": "completed", "output": [X_ITEM]}),
        "anthropic": block_frames([{"type": "text", "text": "x"}]),
    }
    frames = [{**fields, "type": kind} if name in good else chunk(**fields) for fields in odd]
    line = reuse(name)

    message = await line.play(*frames, *good.get(name, chat(chunk(content="x"))))

    await line.sent(user_message("go"), from_disk(message), results_of(message))
    assert text_of(message).endswith("x")


# ── Messages ─────────────────────────────────────────────────────────────────────────────────

CITATION = st.fixed_dictionaries({"type": st.just("char_location"), "cited_text": TEXT})
FOUND = st.lists(with_unknown(type="x", encrypted_content=SEALED), max_size=2)
THOUGHTS = with_unknown(type="thinking", thinking=TEXT, signature=SEALED)
THOUGHTS |= with_unknown(type="redacted_thinking", data=SEALED)
SPOKEN = with_unknown(type="text", text=SAID)
SPOKEN |= with_unknown(type="text", citations=st.lists(CITATION, max_size=3), text=SAID)
SPOKEN |= with_unknown(type="tool_use", id="", name="read", input=OBJECTS)
SPOKEN |= with_unknown(type="compaction", content=TEXT)
SPOKEN |= with_unknown(type="something_new", parts=FOUND, input=OBJECTS.filter(bool))
SPOKEN |= with_unknown(type="web_search_tool_result", content=FOUND)
CONTENTS = st.builds(
    lambda blocks, last: [
        {**one, "id": f"toolu_{at}"} if one["type"] == "tool_use" else one
        for at, one in enumerate([*blocks, last])
    ],
    st.lists(SPOKEN | THOUGHTS, max_size=6),
    SPOKEN,
)


def block_frames(content: list[Object], stop: str = "end_turn") -> Any:
    raw = [Part("call", json.dumps(b["input"])) for b in content if b["type"] == "tool_use"]
    return message_stream.events({"content": content, "usage": {}, "stop_reason": stop}, raw)


@shared_line
@given(content=CONTENTS)
async def test_blocks_of_claude_go_back_as_they_came(reuse: Connect, content: list[Object]) -> None:
    expected = b'{"role":"assistant","content":%b}' % encode_json(content)

    await goes_back(reuse("anthropic", official=True), block_frames(content), expected)


SEARCH: Object = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
RESULT: Object = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
THOUGHT: Object = {"type": "thinking", "thinking": "", "signature": "sealed"}
SO: Object = {"type": "text", "text": "So."}


@for_each(
    ("content", "stop", "kept"),
    [
        ([SO, SEARCH], "max_tokens", [SO]),
        ([SO, SEARCH, RESULT], "end_turn", [SO, SEARCH, RESULT]),
        ([THOUGHT, SO, THOUGHT], "max_tokens", [THOUGHT, SO]),
        ([THOUGHT], "end_turn", []),
        ([SO, THOUGHT, SEARCH], "pause_turn", [SO]),
        ([{"type": "text", "text": " \n"}, THOUGHT, SO], "end_turn", [THOUGHT, SO]),
    ],
)
async def test_blocks_that_claude_would_refuse_stay_behind(
    connect: Connect, content: list[Object], stop: str, kept: list[Object]
) -> None:
    line = connect("anthropic")
    reply = from_disk(await line.play(*block_frames(content, stop)))

    turns = (await line.sent(user_message("go"), reply, user_message("on")))["messages"]

    assert [turn["content"] for turn in turns if turn["role"] == "assistant"] == [kept] * bool(kept)


async def test_a_search_of_which_a_part_was_masked_stays_behind(connect: Connect) -> None:
    parts = (ServerItem(own=SEARCH), ServerItem(own={}), Text(text="So."))
    masked = Message(role="assistant", parts=parts, origin="messages:anthropic/some-model")

    sent = await connect("anthropic").sent(user_message("go"), masked, user_message("on"))

    assert sent["messages"][1]["content"] == [SO]


# ── Responses ────────────────────────────────────────────────────────────────────────────────

numbers = itertools.count()


def item(**fields: Any) -> st.SearchStrategy[Object]:
    """An item with an id of its own, and unknown fields among the known ones in any order."""

    def shuffled(drawn: Object, random: Any) -> Object:
        pairs = [*drawn.items(), ("id", f"it_{next(numbers)}")]
        random.shuffle(pairs)
        return dict(pairs)

    return st.builds(shuffled, with_unknown(**fields), st.randoms(use_true_random=False))


SUMMARY = st.fixed_dictionaries({"type": st.just("summary_text"), "text": TEXT})
PART = with_unknown(type="output_text", text=TEXT)
ARGUMENTS = OBJECTS.map(json.dumps)
ITEMS = st.one_of(
    item(
        type="reasoning",
        summary=st.lists(SUMMARY, max_size=2),
        encrypted_content=TEXT.map("gAAAA{}".format),
    ),
    item(
        type="message",
        role="assistant",
        status="completed",
        phase=st.sampled_from(("commentary", "final_answer", None)),
        content=st.lists(PART, max_size=2),
    ),
    item(type="function_call", name="abc", arguments=ARGUMENTS, call_id=""),
    item(type="custom_tool_call", name="abc", input=SAID, call_id=""),
    item(type=st.sampled_from(("web_search_call", "x_new")), action=UNKNOWN),
)


@shared_line
@given(items=st.lists(ITEMS, min_size=1, max_size=6))
async def test_items_of_a_response_go_back_as_they_came(
    reuse: Connect, items: list[Object]
) -> None:
    items = [{**one, "call_id": f"call_{one['id']}"} if "call_id" in one else one for one in items]
    frames = response_stream.events({"status": "completed", "output": items})
    while items and items[-1]["type"] == "reasoning":
        items = items[:-1]  # nothing came of it

    await goes_back(reuse("azure"), frames, b",".join(map(encode_json, items)))
