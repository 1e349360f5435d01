"""What a stream of each format becomes: tables of events and the message, or the error."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kode.errors import (
    ContextOverflow,
    ProviderError,
    RefusedError,
    ThinkingRefused,
    TransientError,
)
from kode.events import TextDelta, ThinkingDelta
from kode.messages import Message, ServerItem, Text, Thinking, ToolCall, text_of
from kode.providers.errors import Endpoint
from kode.providers.stream import Decoder
from tests.providers.conftest import Connect
from tests.providers.line import READ, Line, shared_line, traced
from tests.strict_server import response_stream
from tests.tables import for_each

Object = dict[str, Any]
Expected = type[ProviderError] | tuple[Any, ...]
"""An error, or how the reply stops and its parts as `outline` has them."""


def outline(message: Message) -> tuple[Any, ...]:
    """Text as it is, a call as name and arguments, thinking in a list."""
    found: list[Any] = []
    for part in message.parts:
        match part:
            case ToolCall():
                found.append((part.name, part.arguments))
            case Thinking():
                found.append([part.text, part.signature or part.redacted])
            case ServerItem():
                found.append({"item": part.text})
            case Text():
                found.append(part.text)
    return message.stop, *found


async def check(line: Line, frames: list[Any], expected: Expected) -> None:
    if isinstance(expected, tuple):
        assert outline(await line.play(*frames, tools=(READ,))) == expected
        return
    with pytest.raises(ProviderError) as caught:
        await line.play(*frames)
    assert type(caught.value) is expected


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────


def chunk(finish: str | None = None, /, **delta: Any) -> Object:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(index: int | None, call_id: str | None, name: str | None, arguments: Any) -> Object:
    """A fragment of a call, without what is None."""
    fields = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    fields["function"] = {
        key: value for key, value in fields["function"].items() if value is not None
    }
    return {key: value for key, value in fields.items() if value is not None}


def chat(*deltas: Any, finish: str = "stop", done: bool = True) -> list[Any]:
    """A stream of deltas, of which a list is of fragments."""
    frames = [chunk(tool_calls=d) if isinstance(d, list) else d for d in deltas]
    return [*frames, *([chunk(finish)] if finish else []), *(["data: [DONE]\n\n"] if done else [])]


A, B, R = '{"path": "a"}', '{"path": "b"}', "read_file"
ASKED = ("tool_calls", (R, A), (R, B))
FRAGMENTS: list[list[Any]] = [
    [[piece(0, "x", R, "")], [piece(1, "y", R, "")], [piece(1, None, None, B[:5])],
     [piece(0, None, None, A)], [piece(1, None, None, B[5:])]],
    # Index 0 for all, with different ids or with none.
    [[piece(0, "x", R, A[:4])], [piece(0, None, None, A[4:])], [piece(0, "y", R, B)]],
    [[piece(0, "", R, A)], [piece(0, "", R, B)]],
    # No index, with ids or without, in two chunks or in one.
    [[piece(None, "x", R, A[:4])], [piece(None, "x", None, A[4:])], [piece(None, "y", R, B)]],
    [[piece(None, None, R, A)], [piece(None, None, R, B)]],
    [[piece(None, None, R, A), piece(None, None, R, B)]],
    # The name in pieces, or again with each chunk; arguments as objects; a whole message.
    [[piece(0, "x", "read_", "")], [piece(0, None, "file", "")], [piece(0, None, None, A)],
     [piece(1, "x", R, B)]],
    [[piece(0, "x", R, A[:6])], [piece(0, "x", R, A[6:])], [piece(1, "y", R, B)]],
    [[piece(0, "x", R, {"path": "a"})], [piece(1, "y", R, {"path": "b"})]],
    [{"choices": [{"message": {"tool_calls": [piece(None, "x", R, A), piece(None, "y", R, B)]}}]}],
]  # fmt: skip
HI = chunk(content="Hi")
THOUGHT_PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
    {"type": "text", "text": "Yes."},
]
YES = ("end", ["Hm.", ""], "Yes.")


@for_each(
    ("frames", "expected"),
    [
        *((chat(*way, finish="tool_calls"), ASKED) for way in FRAGMENTS),
        (chat([piece(0, "x", "todo", None)]), ("tool_calls", ("todo", "{}"))),
        (chat({"id": "keep-alive"}, HI), ("end", "Hi")),
        (chat(chunk(reasoning_content="Hm."), chunk(content="Yes.")), YES),
        (chat(chunk(reasoning="Hm.", reasoning_content="Hm."), chunk(content="Yes.")), YES),
        (chat(chunk(content=THOUGHT_PARTS)), YES),
        (chat(chunk(refusal="I will "), chunk(refusal="not.")), ("refusal", "I will not.")),
        *((chat(HI, finish=word), ("end", "Hi"))
          for word in ("stop", "eos", "STOP", "some_new_reason", "tool_calls")),
        *((chat(HI, finish=word), ("length", "Hi")) for word in ("length", "max_tokens")),
        (chat(HI, finish="content_filter"), ("refusal", "Hi")),
        *((chat(HI, finish=word), TransientError) for word in ("error", "abort", "")),
        (chat(finish="tool_calls"), TransientError),
        (chat([piece(0, "x", "todo", None)], finish="some_new_reason"), TransientError),
        (chat({"choices": [], "usage": {"prompt_tokens": 3}}, finish=""), TransientError),
        # Text after the stop reason belongs to the reply, if that ends.
        (chat(chunk("stop", content="Hel"), chunk("stop", content="lo")), ("end", "Hello")),
        (chat(chunk("stop", content="Hel"), chunk(content="lo"), finish="", done=False),
         TransientError),
        # A character may be split between chunks.
        (chat(*(f'data: {{"choices":[{{"delta":{{"content":"{text}"}}}}]}}\n\n'
                for text in ("fox \\ud83e", "\\udd8a!", " \\ud83e"))), ("end", "fox 🦊! \ufffd")),
        *((chat(HI, frame), ContextOverflow) for frame in (
            {"error": {"message": "n_ctx exceeded: context size", "code": 400}},
            {"error": "the prompt is too long for this model's context window"},
            {"choices": [{"error": {"message": "maximum context length is 5", "code": 400}}]})),
    ],
)  # fmt: skip
async def test_chunks_become_a_message(
    connect: Connect, frames: list[Any], expected: Expected
) -> None:
    await check(connect("openai"), frames, expected)


COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "thinking_tokens")
CHAT_USAGE: list[tuple[str, list[Any], tuple[int, ...]]] = [
    ("openai", [{"prompt_tokens": 9, "completion_tokens": 0, "prompt_cache_hit_tokens": 4},
                {"prompt_tokens": 9, "completion_tokens": 2}], (9, 2, 4, 0, 0)),
    ("openai", [{"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4,
                 "prompt_tokens_details": None},
                {"prompt_tokens": None, "completion_tokens": -1}], (9, 2, 4, 0, 0)),
    ("openrouter", [{"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
                     "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 4},
                     "completion_tokens_details": {"reasoning_tokens": 3}}], (9, 5, 2, 4, 3)),
    ("gemini", [{"prompt_tokens": 16, "completion_tokens": 9, "total_tokens": 627}],
     (16, 611, 0, 0, 602)),
    ("xai", [{"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 14,
              "completion_tokens_details": {"reasoning_tokens": 3}}], (9, 5, 0, 0, 3)),
]  # fmt: skip
MESSAGES_OPENING = {"input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 1}
MESSAGES_OPENING["cache_creation_input_tokens"] = 20
RESPONSES_USAGE: Object = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 70, "cache_write_tokens": 20},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 25},
}


@for_each(("name", "usages", "counts"), CHAT_USAGE)
async def test_usage_of_chat_comes_in_many_ways(
    connect: Connect, name: str, usages: list[Any], counts: tuple[int, ...]
) -> None:
    frames = [{"choices": [], "usage": usage} for usage in usages]

    usage = (
        await connect(name, api="chat").play(*chat(HI, chunk("stop"), *frames, finish=""))
    ).usage

    assert usage is not None
    assert tuple(getattr(usage, name) for name in COUNTS) == counts


async def test_thinking_is_shown_apart_from_the_answer(connect: Connect) -> None:
    line = connect("gemini", "gemini-3.1-pro-preview")
    google = {"extra_content": {"google": {"thought": True}}}
    details = [{"type": "reasoning.summary", "summary": "Hm.", "index": 0}]

    await line.play(*chat(chunk(content="<thought>Hm.", **google), chunk(content="</thought>Yes.")))
    other = connect("openrouter", "openai/gpt-6")
    await other.play(*chat(chunk(reasoning_details=details), chunk(content="Yes.")))

    for events in (line, other):
        assert (events.shown(ThinkingDelta), events.shown(TextDelta)) == (["Hm."], ["Yes."])


# ── Messages ─────────────────────────────────────────────────────────────────────────────────


def start(index: int, **block: Any) -> Object:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> Object:
    fields = {"type": f"{kind}_delta", **fields}
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(reason: str | None, **usage: Any) -> list[Object]:
    ended = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
    return [ended, {"type": "message_stop"}]


SAID = start(0, type="text", text="Hi")


@for_each(
    ("frames", "expected"),
    [
        ([SAID, *stop("stop_sequence")], ("end", "Hi")),
        ([SAID, *stop("model_context_window_exceeded")], ContextOverflow),
        # Two calls under one index are two.
        ([start(0, type="tool_use", id="a", name=R, input={}),
          delta(0, "input_json", partial_json=A),
          start(0, type="tool_use", id="b", name=R, input={}),
          delta(0, "input_json", partial_json=B), *stop("tool_use")], ASKED),
        # Events without names, and blocks without a start.
        ([f"data: {frame}\n\n" for frame in (
            '{"type": "ping"}', '{"type": "something_new", "x": 1}',
            '{"type": "content_block_delta", "index": 0, "delta": '
            '{"type": "text_delta", "text": "Hi"}}',
            '{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}',
            '{"type": "message_stop"}')], ("end", "Hi")),
    ],
)  # fmt: skip
async def test_blocks_become_a_message(
    connect: Connect, frames: list[Any], expected: Expected
) -> None:
    await check(connect("anthropic"), frames, expected)


@for_each(
    ("name", "frames", "counts"),
    [
        ("anthropic", [{"type": "message_start", "message": {"usage": MESSAGES_OPENING}}, SAID,
                       *stop("end_turn", output_tokens=9, input_tokens=None)],
         (125, 9, 100, 20, 0)),
        ("azure", [{"type": "response.completed", "response": {
            "status": "completed", "output": [], "usage": RESPONSES_USAGE}}],
         (100, 30, 70, 20, 25)),
        *(("azure", [{"type": "response.completed", "response": {
            "status": "completed", "output": [], "usage": usage}}], None)
          for usage in (None, 3, {"input_tokens": None, "input_tokens_details": 5})),
    ],
)  # fmt: skip
async def test_usage_counts_what_was_cached_written_and_thought(
    connect: Connect, name: str, frames: list[Any], counts: tuple[int, ...] | None
) -> None:
    usage = (await connect(name).play(*frames)).usage

    assert (usage and tuple(getattr(usage, name) for name in COUNTS)) == counts


# ── Responses ────────────────────────────────────────────────────────────────────────────────


def event(kind: str, **fields: Any) -> Object:
    return {"type": f"response.{kind}", **fields}


def response(*items: Object, **fields: Any) -> list[Object]:
    """The events of a response with these items."""
    whole = {"object": "response", "status": "completed", "output": [*items], **fields}
    frames = response_stream.events(whole)
    return [json.loads(frame.partition(b"data: ")[2]) for frame in frames]


def spoken(text: str) -> Object:
    part = {"type": "output_text", "text": text}
    return {"type": "message", "id": "msg", "role": "assistant", "content": [part]}


SUMMED = [{"type": "summary_text", "text": text} for text in ("First.", "Then.")]
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": SUMMED, "encrypted_content": "gA", "x": 1}
SURE = {**spoken("Sure."), "id": "msg_1", "status": "completed", "phase": "commentary"}
SEARCH: Object = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
SEARCH["action"] = {"query": "kode", "sources": [{"type": "url", "url": "https://a.example"}]}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": R, "arguments": A}
OTHER = {**CALLED, "id": "fc_2", "call_id": "call_2", "arguments": B}
WHOLE = [THOUGHT, SEARCH, SURE, CALLED]
MEANT = ("tool_calls", ["First.\n\nThen.", ""], {"item": "Web search: kode\nhttps://a.example"},
         "Sure.", (R, A))  # fmt: skip
HALF = spoken("Half a")
FIRST, SECOND = (response(CALLED, OTHER)[at : at + 5] for at in (2, 7))
MIXED = [frame for pair in zip(FIRST, SECOND, strict=True) for frame in pair]
RAW = {"type": "reasoning", "id": "rs", "summary": [], "status": "completed"}
RAW_DONE = {**RAW, "content": [{"type": "reasoning_text", "text": "Hm, well."}]}


@for_each(
    ("frames", "expected"),
    [
        (response(*WHOLE), MEANT),
        (response(*WHOLE)[-1:], MEANT),
        ([*response(*WHOLE)[:-1], *response()[-1:]], MEANT),
        # Ids tell items apart where the index is missing; those at the same time keep their order.
        ([{key: value for key, value in frame.items() if key != "output_index"}
          for frame in response(CALLED, OTHER)], ASKED),
        ([*MIXED, *response()[-1:]], ASKED),
        ([event("output_item.added", output_index=0, item=RAW),
          event("reasoning_text.delta", output_index=0, item_id="rs", delta="Hm, "),
          event("output_item.done", output_index=0, item=RAW_DONE), *response()[-1:]],
         ("end", ["Hm, well.", ""])),
        *((response(HALF, status="incomplete", incomplete_details=details), (word, "Half a"))
          for details, word in (({"reason": "max_output_tokens"}, "length"), (None, "length"),
                                ({"reason": "something_new"}, "length"),
                                ({"reason": "content_filter"}, "refusal"))),
        (response({**CALLED, "arguments": '{"path": "a'}, status="incomplete"),
         ("length", (R, '{"path": "a'))),
        *((response(*WHOLE)[:end], TransientError) for end in range(len(response(*WHOLE)))),
        *(([event("completed", response={"object": "response", "status": status})], TransientError)
          for status in ("in_progress", "queued", "cancelled")),
    ],
)  # fmt: skip
async def test_items_become_a_message(
    connect: Connect, frames: list[Any], expected: Expected
) -> None:
    await check(connect("azure"), frames, expected)


async def test_thinking_shows_before_its_first_word(connect: Connect) -> None:
    line = connect("azure")
    await line.play(*response(*WHOLE))
    assert line.shown(ThinkingDelta)[:2] == ["", "First."]


@for_each(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "oops"}, TransientError),
        ({"code": "server_is_overloaded", "message": "later"}, TransientError),
        ({"message": "who knows"}, TransientError),
        ({"code": "context_length_exceeded", "message": "Your input is long."}, ContextOverflow),
        ({"code": "invalid_prompt", "message": "no"}, RefusedError),
        ({"code": "something_new", "message": "no"}, RefusedError),
        ({"code": "invalid_encrypted_content", "message": "It could not"}, ThinkingRefused),
    ],
)
async def test_an_error_in_a_response_means_what_its_code_says(
    connect: Connect, error: Object, kind: type[ProviderError]
) -> None:
    line = connect("azure")
    for frame in (
        *response(status="failed", error=error)[-1:],
        {"type": "error", **error},
        {"type": "error", "error": error},
    ):
        await check(line, [*response(spoken("Hi"))[:5], frame], kind)


async def test_messages_of_a_response_are_shown_apart(connect: Connect) -> None:
    line = connect("azure")

    message = await line.play(*response(spoken("Let me see."), spoken("Done.")))

    assert text_of(message) == "Let me see.\nDone."
    assert "".join(line.shown(TextDelta)) == "Let me see.\n\nDone."


@for_each(
    ("name", "limit", "stop"),
    [
        ("responses_text_stream", 16, "end"),
        ("responses_cut_stream", 16, "length"),
        ("responses_cut_stream", 17, "end"),
    ],
)
async def test_a_full_answer_of_llama_cpp_is_cut(
    connect: Connect, name: str, limit: int, stop: str
) -> None:
    line = connect("llamacpp", api="responses")
    frames = response({**CALLED, "arguments": '{"path": "a'}, usage={"output_tokens": limit})

    text = await line.reply(traced(name), max_output_tokens=limit)
    call = await line.play(*frames, max_output_tokens=limit)
    official = connect("openai", official=True)
    believed = await official.reply(traced(name), max_output_tokens=limit)

    assert (text.stop, call.stop, believed.stop) == (stop, "length", "end")


# ── text that is more than an answer ─────────────────────────────────────────────────────────


async def test_a_vendors_own_server_may_answer_with_tags_of_thoughts(connect: Connect) -> None:
    line = connect("openai", official=True, api="chat")

    await check(line, chat(chunk(content="<think>x</think>Yes.")), ("end", "<think>x</think>Yes."))


# ── bytes ────────────────────────────────────────────────────────────────────────────────────


def decoded(pieces: list[bytes]) -> tuple[list[tuple[str, object]], bool]:
    decoder = Decoder(Endpoint(base_url="http://host/v1", model="m"))
    found = [event for part in pieces for event in decoder.feed(part)] + [*decoder.end()]
    names = [event.name for event in found]
    end = names.index("[DONE]") if "[DONE]" in names else len(found)
    return [(event.name, event.data) for event in found[:end]], end < len(found)


@given(
    st.lists(st.tuples(st.sampled_from(["", "ping", "müde"]), st.text()), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.lists(st.integers(min_value=0, max_value=400), max_size=12),
)
def test_any_cutting_of_any_line_ends_gives_the_same_events(
    told: list[tuple[str, str]], line_end: str, ends: bool, cuts: list[int]
) -> None:
    lines = []
    for name, text in told:
        lines += [f"event: {name}"] if name else []
        lines += [": a comment", f"data: {json.dumps({'text': text}, ensure_ascii=True)}", ""]
    lines += ["data: [DONE]", ""] if ends else []
    stream = "".join(line + line_end for line in lines).encode()
    at = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})

    found = decoded([stream[a:b] for a, b in itertools.pairwise(at)])

    assert found == ([(name, {"text": text}) for name, text in told], ends)


# ── texts ────────────────────────────────────────────────────────────────────────────────────

HARMONY = "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
THOUGHTS = {
    "Hello <think>x</think>": ("", "Hello <think>x</think>"),
    "\n Hello": ("", "\n Hello"),
    "<think>\nHm.\n</think>\n\nYes.": ("\nHm.\n", "Yes."),
    " <thinking>Hm.</thinking>Yes.": ("Hm.", "Yes."),
    "<think>Hm. </thin": ("Hm. </thin", ""),
    "<thin air": ("", "<thin air"),
    f"{HARMONY}<|start|>assistant<|channel|>final<|message|>Yes.": ("Hm.", "Yes."),
    f"{HARMONY}<|channel|>commentary": ("Hm.", "<|channel|>commentary"),
}


@pytest.mark.parametrize("written", THOUGHTS)
@shared_line
@given(cuts=st.lists(st.integers(0, 70), max_size=6))
async def test_written_thoughts_are_found_wherever_pieces_end(
    reuse: Connect, written: str, cuts: list[int]
) -> None:
    """A local server leaves them in the text of a reply, of which they are no part."""
    line = reuse("vllm")
    line.events.clear()
    places = [0, *sorted(cuts), len(written)]
    pieces = [written[a:b] for a, b in itertools.pairwise(places)]

    message = await line.play(*chat(*(chunk(content=text) for text in pieces)))

    thought, text = THOUGHTS[written]
    expected = ([[thought, ""]] if thought else []) + ([text] if text else [])
    assert outline(message) == ("end", *expected)
    assert ["".join(line.shown(kind)) for kind in (ThinkingDelta, TextDelta)] == [thought, text]
