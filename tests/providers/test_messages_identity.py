"""Replies of the Messages API are the same after a stream, a session's file and the next request:
byte for byte, with blocks and fields that kode does not know."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kode.messages import (
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    user_message,
)
from kode.provider import Request
from kode.providers.draft import Draft
from kode.providers.encoding import WireForm, encode_json
from kode.providers.errors import Endpoint
from kode.providers.messages import (
    OpenBlock,
    blocks_of,
    open_messages,
    read_event,
    turns_of,
    wire_turns,
)
from kode.providers.stream import Event
from kode.session.entries import MessageEntry, line_of, parse_line
from tests.providers.opened import settings_of
from tests.tables import for_each

Object = dict[str, Any]

ENDPOINT = Endpoint(base_url="https://api.example.com", model="m")
PROVIDER = open_messages(settings_of("anthropic", "m", api_key="k"))
ORIGIN = PROVIDER.target.origin
WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SAID = WORDS.filter(str.strip)
SEALED = st.text("abcdefghijkl+/=", min_size=1, max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
UNKNOWN = st.dictionaries(st.sampled_from(("x_new", "caller", "depth", "text_of_x")), VALUES)


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return st.builds(
        lambda known, unknown: {"type": kind, **known, **unknown},
        st.fixed_dictionaries(fields),
        UNKNOWN,
    )


CITATIONS = st.lists(
    st.fixed_dictionaries({"type": st.just("char_location"), "cited_text": WORDS}), max_size=3
)
TEXT = st.one_of(block("text", text=SAID), block("text", citations=CITATIONS, text=SAID))
THINKING = st.one_of(
    block("thinking", thinking=WORDS, signature=SEALED),
    block("redacted_thinking", data=SEALED),
)
CALL = block("tool_use", input=st.dictionaries(WORDS, VALUES, max_size=3))
FOUND = st.lists(
    st.fixed_dictionaries({"type": st.just("x"), "encrypted_content": SEALED}), max_size=2
)
NOT_KNOWN = st.one_of(
    block("compaction", content=WORDS),
    block("something_new", parts=FOUND, input=st.dictionaries(WORDS, VALUES, min_size=1)),
    block("web_search_tool_result", content=FOUND),
)


@st.composite
def contents(draw: st.DrawFn) -> list[Object]:
    """The content of a reply, with something after its last thinking."""
    found = draw(st.lists(st.one_of(TEXT, THINKING, CALL, NOT_KNOWN), max_size=7))
    found.append(draw(st.one_of(TEXT, CALL, NOT_KNOWN)))
    for at, one in enumerate(found):
        if one["type"] == "tool_use":
            found[at] = {"type": "tool_use", "id": f"toolu_{at}", "name": "read", **one}
    return found


def pieces(text: str, sizes: Sequence[int]) -> Iterator[str]:
    at = 0
    for size in sizes:
        yield text[at : at + size]
        at += size
    yield text[at:]


GROWN = {"text": "", "thinking": "", "signature": "", "content": ""}
"""What a block has of these fields when it begins."""


def events(content: list[Object], sizes: Sequence[int], stop: str) -> Iterator[Object]:
    """The stream of a reply, as the vendor sends it."""
    for index, whole in enumerate(content):
        grown = {name for name in whole if isinstance(whole[name], str) and name in GROWN}
        begun = {name: GROWN[name] if name in grown else value for name, value in whole.items()}
        begun |= {"input": {}} if "input" in whole else {}
        begun |= {"citations": []} if "citations" in whole else {}
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        deltas: list[Object] = []
        for name in sorted(grown, reverse=True):
            cuts = sizes if name != "signature" else ()
            deltas += [{"type": f"{name}_delta", name: p} for p in pieces(whole[name], cuts)]
        deltas.sort(key=lambda delta: "signature" in delta)
        for citation in whole.get("citations", ()):
            deltas.append({"type": "citations_delta", "citation": citation})
        if "input" in whole:
            written = json.dumps(whole["input"])
            given = pieces(written, sizes)
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in given]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {}}
    yield {"type": "message_stop"}


def received(content: list[Object], sizes: Sequence[int] = (), stop: str = "end_turn") -> Message:
    """The message that a stream becomes, from disk."""
    draft, begun = Draft(ORIGIN, lambda event: None), dict[int, OpenBlock]()
    for event in events(content, sizes, stop):
        read_event(Event(event["type"], event), draft, begun, ENDPOINT)
    message = draft.finish("m", ())
    message = replace(
        message, parts=tuple(PROVIDER.drop_redundant_form(part) for part in message.parts)
    )
    return from_disk(message)


def from_disk(message: Message) -> Message:
    loaded = parse_line(line_of(MessageEntry(**vars(message))))
    assert isinstance(loaded, MessageEntry)
    return Message(**{name: getattr(loaded, name) for name in vars(message)})


def sent(*messages: Message, origin: str = ORIGIN) -> list[Object]:
    """The turns of a request."""
    form = WireForm(origin=origin, drops_moved=True)
    turns = turns_of([blocks_of(message, form) for message in messages])
    return [json.loads(turn) for turn in wire_turns(turns, {})]


def results_for(message: Message) -> Message:
    results = (ToolResult(call_id=c.id, name=c.name, text="x") for c in calls_of(message))
    return Message(role="tool", parts=tuple(results))


@given(contents(), st.lists(st.integers(1, 9), max_size=3))
def test_a_reply_goes_back_as_it_came(content: list[Object], sizes: list[int]) -> None:
    message = received(content, sizes)
    after = results_for(message) if calls_of(message) else user_message("on")

    form = WireForm(origin=ORIGIN)
    turns = wire_turns(turns_of([blocks_of(m, form) for m in (message, after)]), {})

    assert turns[0] == b'{"role":"assistant","content":%b}' % encode_json(content)


def test_own_forms_that_add_nothing_are_not_kept() -> None:
    message = received(
        [
            {"type": "thinking", "thinking": "Hm.", "signature": "sealed"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "Reading."},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"a": [1, 2]}},
        ],
        stop="tool_use",
    )

    assert [getattr(part, "own", 0) for part in message.parts] == [None] * 4


SEEN = st.one_of(
    st.builds(Thinking, text=WORDS, signature=SEALED),
    st.builds(Thinking, redacted=SEALED),
    st.builds(Text, text=WORDS),
)
REPLIES = st.builds(
    lambda parts, origin, moved: Message(
        role="assistant", parts=parts, stop="end", origin=origin, moved=moved
    ),
    st.lists(SEEN, max_size=5).map(tuple),
    st.sampled_from((ORIGIN, "messages:anthropic/other", "")),
    st.booleans(),
)


@given(st.lists(st.one_of(REPLIES, st.builds(user_message, WORDS)), max_size=8))
def test_thinking_is_sent_of_intact_replies_of_this_model_alone(messages: list[Message]) -> None:
    expected = []
    for message in messages:
        if message.role == "assistant" and message.origin == ORIGIN and not message.moved:
            last = max((at for at, p in enumerate(message.parts) if says(p)), default=0)
            thought = [part for part in message.parts[:last] if isinstance(part, Thinking)]
            expected += [part.signature or part.redacted for part in thought]

    found = [one for turn in sent(*messages, user_message("on")) for one in turn["content"]]

    kinds = ("thinking", "redacted_thinking")
    thinking = [one.get("signature") or one["data"] for one in found if one["type"] in kinds]
    assert thinking == expected
    assert all(one["text"].strip() for one in found if one["type"] == "text")


def says(part: Any) -> bool:
    return isinstance(part, Text) and bool(part.text.strip())


@given(st.lists(st.one_of(REPLIES, st.builds(user_message, SAID)), min_size=1, max_size=8))
def test_sent_turns_stay_the_same_whatever_follows(messages: list[Message]) -> None:
    earlier = sent(*messages, user_message("then"))
    later = sent(*messages, user_message("then"), user_message("more"))

    assert later[:-1] == earlier[:-1]
    assert later[-1]["content"][: len(earlier[-1]["content"])] == earlier[-1]["content"]


SEARCH: Object = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
RESULT: Object = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
THOUGHT: Object = {"type": "thinking", "thinking": "", "signature": "sealed"}
SPOKEN: Object = {"type": "text", "text": "So."}


@for_each(
    ("content", "stop", "kept"),
    [
        ([SPOKEN, SEARCH], "max_tokens", [SPOKEN]),
        ([SPOKEN, SEARCH, RESULT], "end_turn", [SPOKEN, SEARCH, RESULT]),
        ([THOUGHT, SPOKEN, THOUGHT], "max_tokens", [THOUGHT, SPOKEN]),
        ([THOUGHT], "end_turn", []),
        ([SPOKEN, THOUGHT, SEARCH], "pause_turn", [SPOKEN]),
        ([{"type": "text", "text": " \n"}, THOUGHT, SPOKEN], "end_turn", [THOUGHT, SPOKEN]),
    ],
)
def test_parts_of_a_reply_the_api_refuses_are_dropped(
    content: list[Object], stop: str, kept: list[Object]
) -> None:
    turns = sent(user_message("go"), received(content, stop=stop), user_message("on"))

    assert [turn["content"] for turn in turns if turn["role"] == "assistant"] == [kept] * bool(kept)


def test_a_paused_reply_and_its_continuation_are_one_turn() -> None:
    paused = received([THOUGHT, SEARCH], stop="pause_turn")
    on = received([RESULT, SPOKEN])

    assert sent(user_message("go"), paused)[-1]["content"] == [THOUGHT, SEARCH]
    turns = sent(user_message("go"), paused, on, user_message("on"))
    assert turns[1]["content"] == [THOUGHT, SEARCH, RESULT, SPOKEN]


def test_a_call_cut_by_the_limit_keeps_no_own_form() -> None:
    draft, begun = Draft(ORIGIN, lambda event: None), dict[int, OpenBlock]()
    start = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}, "caller": "x"}
    stream: list[Object] = [
        {"type": "content_block_start", "index": 0, "content_block": start},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"path": "a'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    ]
    for event in stream:
        read_event(Event(event["type"], event), draft, begun, ENDPOINT)

    (call,) = calls_of(draft.finish("m", ()))
    assert (call.own, call.arguments) == (None, '{"path": "a')


def test_only_findings_of_another_models_search_are_told() -> None:
    page = {"type": "web_search_result", "url": "https://kode.example", "title": "Kode"}
    found = received([THOUGHT, SEARCH, {**RESULT, "content": [page]}])
    other = "messages:anthropic/other"

    (turn,) = (t for t in sent(found, user_message("on"), origin=other) if t["role"] != "user")
    assert [one["type"] for one in turn["content"]] == ["text"]
    assert "https://kode.example" in turn["content"][0]["text"]


def test_a_search_with_a_masked_word_is_left_out() -> None:
    items = (ServerItem(own=SEARCH), ServerItem(own={}), Text(text="So."))
    message = Message(role="assistant", parts=items, stop="end", origin=ORIGIN)

    assert sent(message, user_message("on"))[0]["content"] == [SPOKEN]


def test_a_result_follows_the_changed_id_of_its_call() -> None:
    own = {"type": "tool_use", "id": "functions.x:0", "name": "x", "input": {}, "new": 1}
    call = ToolCall(id="functions.x:0", name="x", arguments="{}", own=own)
    message = Message(role="assistant", parts=(call,), stop="tool_calls", origin=ORIGIN)
    result = ToolResult(call_id="functions.x:0", name="x", text="y")

    turns = sent(message, Message(role="tool", parts=(result,)))

    assert turns[0]["content"][0]["id"] == turns[1]["content"][0]["tool_use_id"]


async def test_requests_of_a_provider_are_made_of_these_turns() -> None:
    message = received([THOUGHT, SPOKEN])
    request = Request(system="", messages=(user_message("go"), message, user_message("on")))

    assert json.loads(PROVIDER.encode(request))["messages"][1]["content"] == [THOUGHT, SPOKEN]
