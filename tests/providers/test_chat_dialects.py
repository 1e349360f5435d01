"""What each host of Chat Completions gets: its own replies as they came, other models' in the form
that it takes, marks for its cache where they pay. Whole sessions with each: `test_lives.py`."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from kode.messages import Message, Text, Thinking, ToolCall, ToolResult, user_message
from kode.providers import row_at
from kode.registry import Dialect, provider_row
from tests.providers.conftest import Connect
from tests.providers.line import READ, Line, Object, attached, results_of
from tests.providers.test_replies import chat, chunk
from tests.tables import for_each

ASKED = user_message("Read a.")
SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
STYLE = {"format": "anthropic-claude-v1", "index": 0}
CLAUDE, GEMINI = "anthropic/claude-sonnet-5.5", "gemini-3.1-pro-preview"


def call(number: int = 1, **extra: Any) -> Object:
    """A call as it goes back."""
    function = {"name": "read_file", "arguments": '{"path": "a"}'}
    return {"id": f"call_{number}", "type": "function", "function": function, **extra}


def calling(made: Object, index: int = 0) -> list[Any]:
    """The chunks of a call: its arguments come in two pieces."""
    arguments = made["function"]["arguments"]
    first = {**made, "index": index, "function": {**made["function"], "arguments": ""}}
    pieces = [
        {"index": index, "function": {"arguments": a}} for a in (arguments[:4], arguments[4:])
    ]
    return [[piece] for piece in (first, *pieces)]


def detail(text: str = "", **more: Any) -> Object:
    said = {"text": text} if text else {}
    return {"type": "reasoning.text", **said, **more, **STYLE}


def thinks(*texts: str) -> list[Object]:
    """The chunks of thinking as Mistral has them; the last is closed."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": t}]} for t in texts]
    return [chunk(content=[part]) for part in [*parts[:-1], {**parts[-1], "closed": True}]]


def host(connect: Connect, name: str, model: str = "some-model", **more: Any) -> Line:
    return connect(name, model, official=True, api="chat", **more)


async def test_a_reply_goes_back_as_it_came_or_plain_elsewhere(connect: Connect) -> None:
    """Hosts that show what is lost do so in `test_lives.py`."""
    line = host(connect, "mistral", "magistral-medium-latest")
    made = {**call(), "id": "D681PevKs"}
    deltas = [*thinks("Hm, ", "well."), chunk(content="Su"), chunk(content="re.")]
    came = await line.play(*chat(*deltas, [{**made, "index": 0}], finish="tool_calls"))
    talk = (ASKED, came, results_of(came))

    own, other = await line.sent(*talk), await host(connect, "vllm", "other").sent(*talk)

    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm, well."}]}
    content = [{**thinking, "closed": True}, {"type": "text", "text": "Sure."}]
    said = {"role": "assistant", "tool_calls": [made]}
    assert own["messages"][1] == {**said, "content": content}
    assert other["messages"][1] == {**said, "content": "Sure."}


async def test_thinking_stays_behind_where_its_server_would_refuse_it(connect: Connect) -> None:
    signed = [chunk(reasoning_details=[detail("Hm.", signature="c2ln")]), chunk(content="Yes.")]
    for model, deltas, finish, moved, is_sent in (
        (CLAUDE, signed, "stop", False, True),
        (CLAUDE, signed, "stop", True, False),
        ("deepseek/deepseek-v4", signed, "stop", True, True),
        (CLAUDE, [chunk(reasoning_details=[detail("Hm")]), signed[1]], "length", False, False),
    ):
        line = host(connect, "openrouter", model)
        came = await line.play(*chat(*deltas, finish=finish))
        body = await line.sent(ASKED, replace(came, moved=moved), ASKED)
        assert ("reasoning_details" in body["messages"][1]) is is_sent, model
    cut = {**call(1, **SIGNED), "index": 0, "function": {"name": "read_file", "arguments": "{"}}
    (made,) = (await host(connect, "gemini", GEMINI).play(*chat([cut], finish="length"))).parts
    assert isinstance(made, ToolCall)
    assert made.own is None


# ── what came from elsewhere ─────────────────────────────────────────────────────────────────

LONG_ID = "toolu_01VpEm654HvfMoRcrE3Hgdc6" + "x" * 20
FOREIGN = (
    ASKED,
    Message(
        role="assistant",
        parts=(
            Thinking(text="Hm.", signature="c2ln", own={"type": "thinking", "thinking": "Hm."}),
            ToolCall(id=LONG_ID, name="read_file", arguments="{}", own={"type": "tool_use"}),
            ToolCall(id="call_2", name="read_file", arguments="{}"),
        ),
        stop="tool_calls",
        origin="messages:anthropic/claude-sonnet-5-5",
    ),
    Message(
        role="tool",
        parts=tuple(
            ToolResult(call_id=made, name="read_file", text="a") for made in (LONG_ID, "call_2")
        ),
    ),
    Message(role="assistant", parts=(Text(text="Done."),), stop="end", origin="responses:openai/x"),
    user_message("Thanks."),
)


async def test_a_picture_follows_a_result_where_no_user_may(
    connect: Connect, tmp_path: Path
) -> None:
    asked, called, done, *_ = FOREIGN
    done = replace(done, parts=(*done.parts, attached(tmp_path)))
    roles = {}
    for name in ("mistral", "vllm"):
        line = host(connect, name, facts={"sees_images": True})
        messages = (await line.sent(asked, called, done, user_message("And?")))["messages"]
        roles[name] = [message["role"] for message in messages[4:]]

    assert roles == {"mistral": ["assistant", "user", "user"], "vllm": ["user", "user"]}


async def test_a_pdf_goes_where_it_is_taken(connect: Connect, tmp_path: Path) -> None:
    asked = Message(role="user", parts=(attached(tmp_path, "pdf"), Text(text="Read.")))
    parts = {}
    for name in ("openrouter", "gemini"):
        parts[name], _ = (await host(connect, name).sent(asked))["messages"][0]["content"]

    assert parts["openrouter"]["file"]["filename"] == "shot.pdf"
    assert parts["openrouter"]["file"]["file_data"].startswith("data:application/pdf;base64,")
    assert "shot.pdf" in parts["gemini"]["text"]


# ── caching and addresses ────────────────────────────────────────────────────────────────────


def marks_of(body: Object) -> list[int]:
    """The places of the messages with a mark."""
    return [at for at, m in enumerate(body["messages"]) if "cache_control" in json.dumps(m)]


async def test_claude_at_openrouter_is_marked_where_it_pays(connect: Connect) -> None:
    line = host(connect, "openrouter", CLAUDE)
    history: list[Message] = []
    bodies, given = [], {"system": "You are kode.", "tools": (READ,), "conversation": "c"}
    for number in range(8):
        history.append(user_message(f"Read {number}."))
        bodies.append(await line.sent(*history, **given))
        made = await line.play(*chat(*calling(call(number)), finish="tool_calls"))
        history += [made, results_of(made)]
        bodies.append(await line.sent(*history, **given))
        history.append(await line.play(*chat(chunk(content="Done."))))

    assert [marks_of(body) for body in bodies[:3]] == [[0, 1], [0, 1, 3], [0, 3, 5]]
    assert [len(marks_of(body)) for body in bodies[1:]] == [3] * 15
    mark = ', "cache_control": {"type": "ephemeral"}'
    plain = [json.dumps(body["messages"]).replace(mark, "") for body in bodies]
    assert all(b.startswith(a.removesuffix("]")) for a, b in itertools.pairwise(plain))


async def test_claude_alone_is_marked_unless_that_is_forbidden(connect: Connect) -> None:
    for name, model, cache, session, marks in (
        ("openai", "claude-sonnet-5-5", "auto", "c", [0, 1]),
        ("openai", "claude-sonnet-5-5", "long", "c", [0, 1]),
        ("openai", "claude-sonnet-5-5", "auto", "", []),  # a single question
        ("openai", "claude-sonnet-5-5", "none", "c", []),
        ("openrouter", "openai/gpt-6", "auto", "c", []),
        ("deepseek", "deepseek-v4-pro", "auto", "c", []),
    ):
        line = host(connect, name, model, cache=cache)
        body = await line.sent(ASKED, system="You are kode.", conversation=session)
        assert marks_of(body) == marks, name
        assert json.dumps(body).count('"ttl": "1h"') == (2 if cache == "long" else 0)


@for_each(
    ("name", "base_url", "like"),
    [
        ("openai", "https://api.deepseek.com/v1", "deepseek"),
        ("openai", "https://x.openai.azure.com/openai/v1", "azure"),
        ("openai", "https://api.openai.com/v1", "openai"),
        ("openai", None, "openai"),
        ("openai", "http://127.0.0.1:8000/v1", None),
        ("vllm", "http://gpu:8000/v1", "vllm"),
        ("deepseek", "https://proxy.example/v1", "deepseek"),
    ],
)
def test_the_address_decides_the_dialect(name: str, base_url: str | None, like: str | None) -> None:
    row, other = provider_row(name), provider_row(like or "")
    assert row is not None

    assert row_at(row, base_url).dialect == (other.dialect if other else Dialect())
