"""What goes out: the parameters and the messages of a request in each format."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kode.errors import RefusedError
from kode.messages import (
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user_message,
)
from kode.provider import ToolSpec
from kode.providers.chat import form_of, message_bytes
from kode.providers.request import CONTEXT_REPLY, FEW, EncodedMessages
from kode.registry import ProviderRow
from tests.providers.conftest import Connect
from tests.providers.line import READ, Object, kinds_in, results_of, target_of
from tests.tables import for_each

MARK = {"type": "ephemeral"}
HOUR = {**MARK, "ttl": "1h"}
CALL = ToolCall(id="call_1", name="read_file", arguments='{"path":  "a"}')
SURE = Message(role="assistant", parts=(Text(text="Sure."), CALL), stop="tool_calls")
ASKED = Message(role="user", parts=(Text(text="[memory]", source="memory"), Text(text="Read a")))
FUNCTION = {"name": "read_file", "description": "Read.", "parameters": READ.parameters}
CHAT_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "read_file", "arguments": CALL.arguments},
}
USE = {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "a"}}
FAILED = {"type": "tool_result", "tool_use_id": "call_1", "content": "é", "is_error": True}
INPUT = {"type": "input_text", "text": "[memory]\n\nRead a"}
FUNCTION_CALL = {"type": "function_call", "call_id": "call_1", "name": "read_file"}
FUNCTION_CALL |= {"arguments": CALL.arguments}
MEMORY, READ_A = ({"type": "text", "text": text} for text in ("[memory]", "Read a"))
BODIES: dict[str, Object] = {
    "openai": {
        "model": "some-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 99,
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            {"role": "system", "content": "You are kode."},
            {"role": "user", "content": "[memory]\n\nRead a"},
            {"role": "assistant", "content": "Sure.", "tool_calls": [CHAT_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "é"},
        ],
    },
    "anthropic": {
        "model": "some-model",
        "stream": True,
        "max_tokens": 99,
        "tools": [{"name": "read_file", "description": "Read.", "input_schema": READ.parameters}],
        "system": [{"type": "text", "text": "You are kode.", "cache_control": MARK}],
        "messages": [
            {"role": "user", "content": [MEMORY, READ_A]},
            {"role": "assistant", "content": [{"type": "text", "text": "Sure."}, USE]},
            {"role": "user", "content": [{**FAILED, "cache_control": MARK}]},
        ],
    },
    "azure": {
        "model": "some-model",
        "stream": True,
        "store": False,
        "truncation": "disabled",
        "max_output_tokens": 99,
        "prompt_cache_key": "session-1",
        "instructions": "You are kode.",
        "tools": [{"type": "function", **FUNCTION, "strict": False}],
        "input": [
            {"type": "message", "role": "user", "content": [INPUT]},
            {"type": "message", "role": "assistant", "content": "Sure."},
            FUNCTION_CALL,
            {"type": "function_call_output", "call_id": "call_1", "output": "é"},
        ],
    },
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_request_has_every_field_the_api_expects(connect: Connect, name: str) -> None:
    failed = ToolResult(call_id="call_1", name="read_file", text="é", is_error=True)

    body = await connect(name).sent(
        *(ASKED, SURE, Message(role="tool", parts=(failed,))),
        system="You are kode.",
        tools=(READ,),
        max_output_tokens=99,
        conversation="session-1",
    )

    assert body == BODIES[name]


# ── parameters ───────────────────────────────────────────────────────────────────────────────

CLOSED: Object = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CLOSED |= {"additionalProperties": False}
OPEN = {**CLOSED, "additionalProperties": True}
REASONS = {"efforts": ("none", "low", "medium", "high")}
GPT, SOME = "gpt-6.1-sol", "some-model"
AUTO = {"effort": "high", "summary": "auto"}
LEVELS = {"efforts": ("low", "high", "max")}
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
NEW, HAIKU, BEFORE = "claude-sonnet-5-5", "claude-haiku-5-5", "claude-haiku-4-5"
OFF: Object = {"thinking": {"type": "disabled"}}
ON: Object = {"thinking": {"type": "enabled"}}
KIMI: Object = {"thinking": {"type": "enabled", "keep": "all"}}
KEPT: Object = {"thinking": {"type": "enabled", "clear_thinking": False}}
SEARCH = {"search": True}


def effort(level: str | None) -> Object:
    return {"effort": level}


def budget(tokens: int) -> Object:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


def shown(**config: Any) -> Object:
    return {"extra_body": {"google": {"thinking_config": {"include_thoughts": True, **config}}}}


def template(is_on: bool) -> Object:
    return {"chat_template_kwargs": {"enable_thinking": is_on}}


def answer(schema: Object, strict: bool) -> Object:
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}


NO_EFFORT = dict.fromkeys(
    "thinking reasoning reasoning_effort extra_body chat_template_kwargs include".split()
)
"""Of every format: no word about how much to think."""


@for_each(
    ("name", "model", "facts", "request_of", "fields"),
    [
        # Responses: None is not sent.
        ("azure", GPT, REASONS, {}, {"reasoning": AUTO,
                                     "include": ["reasoning.encrypted_content"]}),
        ("azure", GPT, REASONS, effort("low"), {"reasoning": {"effort": "low", "summary": "auto"}}),
        ("azure", GPT, REASONS, effort("none"), {"reasoning": {"effort": "none"}}),
        ("azure", SOME, {}, effort("high"), NO_EFFORT),
        ("azure", SOME, {}, {"max_output_tokens": 4}, {"max_output_tokens": 16}),
        ("azure", SOME, {}, {"answer_schema": CLOSED, "tools": (READ,)},
         {"text": {"format": answer(CLOSED, True)}, "tool_choice": "none"}),
        ("azure", SOME, {}, {"answer_schema": OPEN}, {"text": {"format": answer(OPEN, False)}}),
        # Messages.
        ("anthropic", NEW, {}, {}, {"thinking": ADAPTIVE, "output_config": {"effort": "xhigh"}}),
        ("anthropic", NEW, {}, effort("none"),
         {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
        ("anthropic", HAIKU, {}, effort("none"), {**OFF, "output_config": None}),
        ("anthropic", "claude-opus-4-5", {}, effort("max"),
         {**budget(32_000), "output_config": {"effort": "high"}}),
        ("anthropic", BEFORE, {}, effort("none"), OFF),
        ("anthropic", SOME, {}, effort("high"), {"thinking": None, "output_config": None}),
        # The limit leaves room for the answer beside the budget, which fits into it.
        *(("anthropic", BEFORE, {}, {"max_output_tokens": asked}, {"max_tokens": limit})
          for asked, limit in ((300, 16_300), (12_000, 24_192), (64_000, 64_000))),
        ("anthropic", BEFORE, {"max_output_tokens": 2_000}, {}, {"thinking": None}),
        # Without an own limit, room for the conversation is left.
        ("anthropic", SOME, {"context_window": 60_000, "max_output_tokens": 30_000}, {},
         {"max_tokens": 10_000}),
        # Chat Completions: a level that the model has not becomes the nearest; without one of the
        # person's own, the vendor's recommendation or nothing.
        ("deepseek", SOME, LEVELS, effort("medium"), {**ON, "reasoning_effort": "low"}),
        ("deepseek", GPT, LEVELS, {}, {**ON, "reasoning_effort": "high"}),
        ("deepseek", SOME, LEVELS, effort("none"), {**OFF, "reasoning_effort": None}),
        ("xai", SOME, {}, effort("none"), {"reasoning_effort": "none"}),
        ("openrouter", SOME, {}, effort("none"), {"reasoning": {"effort": "none"}}),
        ("openrouter", SOME, {"thinking": ("enabled", "disabled")}, {},
         {"reasoning": {"enabled": True}}),
        ("together", SOME, {}, effort("none"),
         {"reasoning": {"enabled": False}, "reasoning_effort": None}),
        ("moonshot", SOME, LEVELS, effort("high"), {"thinking": None, "reasoning_effort": "high"}),
        *(("moonshot", SOME, {}, effort(level), {**KIMI, "reasoning_effort": None})
          for level in ("high", None)),
        ("zai", SOME, {}, {}, KEPT),
        ("vllm", GPT, LEVELS, {}, NO_EFFORT),
        ("vllm", SOME, {}, effort("none"), template(False)),
        ("ollama", SOME, {}, effort("low"), {"reasoning_effort": "low"}),
        ("gemini", "gemini-3.8-flash", LEVELS, effort("high"), shown(thinking_level="high")),
        ("gemini", "gemini-3.8-flash", LEVELS, effort("none"), {"reasoning_effort": "none"}),
        ("gemini", "gemini-2.5-pro", LEVELS, effort("high"), {"reasoning_effort": "high"}),
        # Further differences of hosts.
        ("openai", SOME, {}, {"max_output_tokens": 50},
         {"max_tokens": 50, "max_completion_tokens": None, "prompt_cache_key": None}),
        ("zai", SOME, {}, {"tools": (READ,)}, {"tool_stream": True}),
        ("mistral", SOME, {}, {}, {"stream_options": None}),
        *((name, SOME, {}, {"conversation": "s1"}, {field: "s1"} if field else {"user": None})
          for name, field in (("moonshot", "prompt_cache_key"), ("openrouter", "session_id"),
                              ("groq", ""))),
        *(("openai", SOME, {}, {"answer_schema": schema}, {"response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": strict}}})
          for schema, strict in (
              (CLOSED, True),
              ({**CLOSED, "required": []}, False),
              ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
              ({"type": "array", "items": {"type": "object"}}, False))),
        # The search of the vendor is a tool beside the others.
        *((name, model, facts, SEARCH, {"tools": tools}) for name, model, facts, tools in (
            ("gemini", SOME, {}, None), ("anthropic", SOME, {}, None), ("azure", SOME, {}, None),
            ("azure", SOME, {"searches": True}, [{"type": "web_search"}]))),
    ],
)  # fmt: skip
async def test_parameters_are_as_the_server_has_them(
    connect: Connect, name: str, model: str, facts: Object, request_of: Object, fields: Object
) -> None:
    is_chat = name not in ("azure", "anthropic")
    settings = {"official": True, "api": "chat"} if is_chat else {}

    body = await connect(name, model, facts=facts, **settings).sent(**request_of)

    assert {key: body.get(key) for key in fields} == fields


async def test_schemas_searches_and_levels_go_together(connect: Connect) -> None:
    claude = connect("anthropic", "claude-opus-4-8")
    asked: Object = {"effort": "low", "answer_schema": CLOSED, "tools": (READ,), "search": True}

    sent = await claude.sent(**asked)
    openai = await connect("azure", facts={"searches": True}).sent(**asked)
    native = ToolSpec(name="memory", description="x", parameters={}, api_type="memory_20250818")
    declared = await claude.sent(tools=(native,))

    assert sent["output_config"]["effort"] == "low"
    assert sent["output_config"]["format"]["type"] == "json_schema"
    assert sent["tool_choice"] == {"type": "none"}
    assert [tool["name"] for tool in sent["tools"]] == ["read_file", "web_search"]
    assert kinds_in(openai["tools"]) == ["function", "web_search"]
    assert "web_search_call.action.sources" in openai["include"]
    assert declared["tools"] == [{"type": "memory_20250818", "name": "memory"}]


async def test_a_schema_that_claude_cannot_answer_by_is_refused(connect: Connect) -> None:
    with pytest.raises(RefusedError, match="hold an answer"):
        await connect("anthropic", NEW).sent(answer_schema={"properties": {"a": {}}})


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def claude_said(*parts: Any, stop: Any = "end", model: str = BEFORE, **more: Any) -> Message:
    origin = f"messages:anthropic/{model}"
    return Message(role="assistant", parts=parts, stop=stop, origin=origin, **more)


THOUGHT = Thinking(text="Hm.", signature="s")
ASKING = claude_said(THOUGHT, CALL, stop="tool_calls")
PLAINLY = claude_said(CALL, stop="tool_calls")
NEWS = Text(text="N", source="news")
DONE = results_of(ASKING)
STEPS = (user_message("go"), ASKING, DONE)


@for_each(
    ("messages", "thinks"),
    [
        ((*STEPS, PLAINLY, DONE), True),
        ((user_message("go"), PLAINLY, DONE, PLAINLY, DONE), False),
        ((user_message("go"), PLAINLY, DONE, user_message("And?"), PLAINLY, DONE), False),
        (
            (user_message("go"), ASKING, DONE, user_message("And?"), PLAINLY, user_message("x")),
            True,
        ),
    ],
)
async def test_an_older_claude_thinks_where_thinking_began_its_calls(
    connect: Connect, messages: tuple[Message, ...], thinks: bool
) -> None:
    assert ("thinking" in await connect("anthropic", BEFORE).sent(*messages)) is thinks


def marks_of(body: Object) -> list[tuple[int, int, Any]]:
    """Where marks stand, the turn and the block, and what they say."""
    return [
        (at, number, block["cache_control"])
        for at, turn in enumerate(body["messages"])
        for number, block in enumerate(turn["content"])
        if "cache_control" in block
    ]


OWN, OTHER = claude_said(THOUGHT, Text(text="one")), claude_said(Text(text="x"), model="another")
TALK = (user_message("a"), OWN, user_message("b"), OTHER, user_message("c"))
EMPTY = replace(DONE, parts=(*DONE.parts, ToolResult(call_id="c2", name="x", text=" ")))
TWO = replace(ASKING, parts=(*ASKING.parts, ToolCall(id="c2", name="x", arguments="{}")))


@for_each(
    ("cache", "messages", "system", "marks"),
    [
        # They end the last request that this model answered, and this one.
        ("auto", (*TALK, OTHER, user_message("d")), MARK, [(0, 0, MARK), (6, 0, MARK)]),
        ("auto", (*TALK, OWN, user_message("d")), MARK, [(4, 0, MARK), (6, 0, MARK)]),
        ("auto", (user_message("go"), TWO, EMPTY), MARK, [(0, 0, MARK), (2, 0, MARK)]),
        # An hour is marked at what the person asked, and in its first request what was read before.
        ("long", STEPS, HOUR, [(0, 0, HOUR), (2, 0, MARK)]),
        ("long", (*STEPS, OWN, user_message("more")), HOUR,
         [(0, 0, HOUR), (2, 0, HOUR), (4, 0, HOUR)]),
        ("none", STEPS, None, []),
    ],
)  # fmt: skip
async def test_marks_for_the_cache_stand_where_a_prefix_ends(
    connect: Connect, cache: Any, messages: tuple[Message, ...], system: Any, marks: list[Any]
) -> None:
    line = connect("anthropic", BEFORE, cache=cache)

    body = await line.sent(*messages, system="s", conversation="c")

    assert (body["system"][0].get("cache_control"), marks_of(body)) == (system, marks)


@for_each(
    ("messages", "last"),
    [
        ((*STEPS, Message(role="user", parts=(NEWS,))),
         [("assistant", ["tool_use"]), ("user", ["tool_result", "text"])]),
        # Neighbours of the user are one turn, with results first.
        ((user_message("a"), SURE, Message(role="tool", parts=(Text(text="note"), *DONE.parts)),
          user_message("b")),
         [("assistant", ["text", "tool_use"]), ("user", ["tool_result", "text", "text"])]),
    ],
)  # fmt: skip
async def test_text_after_results_stands_where_claude_takes_it(
    connect: Connect, messages: tuple[Message, ...], last: list[Any]
) -> None:
    body = await connect("anthropic", "claude-opus-4-8").sent(*messages, conversation="c")

    turns = [(turn["role"], kinds_in(turn["content"])) for turn in body["messages"]]
    assert turns[-2:] == last
    assert marks_of(body)[-1][0] == len(turns) - 1


# Responses


def gpt_said(*parts: Any, **more: Any) -> Message:
    return Message(
        **{"role": "assistant", "stop": "end", "origin": "responses:azure/some-model", **more},
        parts=parts,
    )


SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "x": 1}
SAID = {"id": "msg_1", "type": "message", "role": "assistant", "phase": "commentary"}
SAID |= {"content": [{"type": "output_text", "text": "Sure.", "annotations": []}]}
CALLED = {**FUNCTION_CALL, "id": "fc_1", "status": "completed"}
PARTS = (
    Thinking(own=SEALED),
    Text(text="Sure.", own=SAID),
    replace(CALL, own=CALLED),
)
FREE = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "x", "input": "*"}
FOUND = ServerItem(own={"type": "web_search_call", "id": "ws_1"}, text="https://a.example")
BARE = {"type": "message", "role": "assistant", "content": "Sure."}
PLAIN = [{**BARE, "phase": "commentary"}, FUNCTION_CALL]
HI = {"type": "function_call_output", "call_id": "call_1", "output": "hi"}
SUMMED = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}


def without(at: int) -> Message:
    parts: list[Any] = list(PARTS)
    parts[at] = replace(parts[at], own=None)
    return gpt_said(*parts)


@for_each(
    ("reply", "items"),
    [
        (gpt_said(*PARTS), [SEALED, SAID, CALLED, HI]),
        (gpt_said(*PARTS, origin="responses:azure/other"), [*PLAIN, HI]),
        # A reply lacking one own form loses all ids.
        *((without(at), [*PLAIN, HI]) for at in (0, 2)),
        (without(1), [BARE, FUNCTION_CALL, HI]),
        # Thinking that only the server kept, or that nothing followed, does not go back.
        (gpt_said(Thinking(own=SUMMED), *PARTS[1:]), [*PLAIN, HI]),
        (gpt_said(Thinking(own={**SEALED, "encrypted_content": None}), *PARTS[1:]), [*PLAIN, HI]),
        (gpt_said(PARTS[0], stop="length"), []),
        (gpt_said(PARTS[1], PARTS[0], stop="length"), [SAID]),
        (gpt_said(ToolCall(id="call_1", name="x", arguments="*", own=FREE)),
         [FREE, {"type": "custom_tool_call_output", "call_id": "call_1", "output": "hi"}]),
        # Findings of a search reach another model only if nothing else was said.
        (gpt_said(FOUND), [FOUND.own]),
        (gpt_said(FOUND, origin="messages:anthropic/x"), ["https://a.example"]),
        (gpt_said(FOUND, Text(text="So."), origin="messages:anthropic/x"), ["So."]),
    ],
)  # fmt: skip
async def test_a_reply_of_responses_goes_back_in_its_form(
    connect: Connect, reply: Message, items: list[Any]
) -> None:
    results = results_of(reply)
    after = results if results.parts else user_message("on")

    sent = (await connect("azure").sent(user_message("go"), reply, after))["input"]

    found = sent[1:] if results.parts else sent[1:-1]
    assert [one["content"] if isinstance(item, str) else one
            for one, item in zip(found, items, strict=True)] == items  # fmt: skip


OPENING = Message(
    role="user",
    parts=(Text(text="[folder]", source="opening"), NEWS, Text(text="Read a")),
)


async def test_an_opening_is_a_marked_message_of_the_developer(connect: Connect) -> None:
    official = connect("openai", official=True, facts={"cache_marks": True})
    local = connect("llamacpp", api="responses")

    (developer, user) = (await official.sent(OPENING))["input"]
    (mine,) = (await local.sent(OPENING))["input"]
    (nothing,) = (await local.sent(user_message("")))["input"]

    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    assert developer["role"] == "developer"
    assert developer["content"] == [
        {"type": "input_text", "text": "[folder]", **mark},
        {"type": "input_text", "text": "N"},
    ]
    assert (user["role"], mine["role"], nothing["role"]) == ("user", "user", "user")
    assert mine["content"][0]["text"].startswith("[folder]\n\n")


async def test_a_chat_message_that_says_nothing_is_left_out(connect: Connect) -> None:
    silent = Message(role="assistant", parts=(THOUGHT,), stop="end")

    sent = await connect("openai").sent(user_message("a"), silent, user_message("b"))

    assert sent["messages"] == [{"role": "user", "content": "a\n\nb"}]


# ── a session's list on its way ──────────────────────────────────────────────────────────────

encode = partial(message_bytes, form=form_of(target_of(ProviderRow(name="x"))))
STEPS = st.sampled_from(["append", "append", "silent", "replace", "shorten", "another"])


@given(st.lists(STEPS, max_size=40), st.booleans())
def test_encoding_step_by_step_equals_encoding_afresh(steps: list[str], joins: bool) -> None:
    encoded = EncodedMessages(encode, joins_users=joins)
    messages = [user_message(f"message {number} at first") for number in range(FEW - 2)]
    for number, step in enumerate(steps):
        sent = messages
        if step == "append":
            messages.append(user_message(f"message {number}"))
        elif step == "silent":  # an answer without text has no wire form
            messages.append(Message(role="assistant", parts=()))
        elif step == "replace":
            sent = messages = [user_message("other words"), *messages[1:]]
        elif step == "shorten":
            sent = messages = messages[: len(messages) // 2]
        else:
            sent = [user_message(f"beside {number}")] * (number % (2 * FEW))
        assert encoded.of(sent) == EncodedMessages(encode, joins_users=joins).of(sent)


INDEX = Message(role="user", parts=(Text(text="Available memory: ...", source="memory"),))
EPISODE = Text(text="an episode", source="memory")
FACTS = Text(text="facts", source="memory", section_name="recall")
PLACE = Text(text="# Where you are", source="opening")
QUESTION = Text(text="Which port?")


@for_each(
    ("messages", "sent"),
    [
        # User messages in a row become one.
        ([user_message("a"), user_message("b"), Message(role="assistant", parts=(QUESTION,)),
          user_message("c"), Message(role="assistant", parts=()), user_message("d")],
         [("user", "a\n\nb"), ("assistant", "Which port?"), ("user", "c\n\nd")]),
        ([INDEX, Message(role="user", parts=(EPISODE, Text(text="a"))), user_message("b")],
         [("user", "Available memory: ...\n\nan episode\n\na\n\nb")]),
        # Words stand alone behind memory that was recorded for a small model.
        ([Message(role="user", parts=(FACTS,)), Message(role="user", parts=(PLACE, QUESTION))],
         [("user", "facts\n\n# Where you are"), ("assistant", CONTEXT_REPLY.parts[0].text),
          ("user", "Which port?")]),
        ([Message(role="user", parts=(PLACE, QUESTION))],
         [("user", "# Where you are\n\nWhich port?")]),
    ],
)  # fmt: skip
async def test_neighbours_and_context_stand_as_weak_models_take_them(
    connect: Connect, messages: list[Message], sent: list[tuple[str, str]]
) -> None:
    body = await connect("openai").sent(*messages)

    assert [(message["role"], message["content"]) for message in body["messages"]] == sent
