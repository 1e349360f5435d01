"""What each host of Chat Completions gets: its own replies as they came, other models' in the form
that it takes, and its own names for effort, caching and search."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.events import Event, TextDelta, ThinkingDelta
from kode.images import keep
from kode.messages import (
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    text_of,
    user_message,
)
from kode.provider import Request, ToolSpec
from kode.providers import encoding
from kode.providers.chat import open_chat, thinking_settings
from kode.providers.provider import HttpProvider
from kode.registry import PROVIDERS, Dialect, provider_row, row_at
from tests import pictures
from tests.providers.chat_hosts import Object, answered, call, fragments, host, sent_by, streamed
from tests.providers.opened import settings_of
from tests.strict_server import StrictServer
from tests.tables import for_each

ASKED = user_message("Read a.")
READ = ToolSpec(
    name="read_file",
    description="Read.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
STYLE = {"format": "anthropic-claude-v1", "index": 0}
MISTRALS = {**call(), "id": "D681PevKs"}


def second(provider: HttpProvider, deltas: list[Object]) -> list[Object]:
    """The messages of the request that follows a reply with calls."""
    first = streamed(provider, deltas)
    messages: list[Object] = sent_by(provider, [ASKED, first, answered(first)])["messages"]
    return messages


# ── what came goes back ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "model", "deltas", "reply"),
    [
        pytest.param(
            "deepseek",
            "deepseek-v4-pro",
            [
                {"role": "assistant", "content": None, "reasoning_content": ""},
                {"reasoning_content": "Hm, "},
                {"reasoning_content": "well."},
                *fragments(call()),
            ],
            {"content": None, "reasoning_content": "Hm, well.", "tool_calls": [call()]},
            id="deepseek",
        ),
        pytest.param(
            "zai",
            "glm-5.3",
            [{"content": "", "reasoning_content": ""}, {"content": "Sure."}, *fragments(call())],
            {"content": "Sure.", "reasoning_content": "", "tool_calls": [call()]},
            id="glm, an empty one",
        ),
        pytest.param(
            "moonshot",
            "kimi-k3",
            [{"reasoning_content": "Hm."}, *fragments({**call(), "id": "functions.read_file:0"})],
            {
                "content": None,
                "reasoning_content": "Hm.",
                "tool_calls": [{**call(), "id": "functions.read_file:0"}],
            },
            id="kimi",
        ),
        pytest.param(
            "gemini",
            "gemini-3.1-pro-preview",
            [
                {"content": "<thought>Hm, ", "extra_content": {"google": {"thought": True}}},
                {"content": "well.", "extra_content": {"google": {"thought": True}}},
                {"content": "</thought>Sure.", "extra_content": None},
                {"tool_calls": [{**call(1, **SIGNED)}]},
                {"tool_calls": [call(2)]},
                {"content": None, **SIGNED},
            ],
            {"content": "Sure.", **SIGNED, "tool_calls": [call(1, **SIGNED), call(2)]},
            id="gemini",
        ),
        pytest.param(
            "openrouter",
            "anthropic/claude-sonnet-5.5",
            [
                {"reasoning": "Hm, ", "reasoning_details": [
                    {"type": "reasoning.text", "text": "Hm, ", **STYLE}]},
                {"reasoning": "well.", "reasoning_details": [
                    {"type": "reasoning.text", "text": "well.", **STYLE}]},
                {"reasoning_details": [{"type": "reasoning.text", "signature": "c2ln", **STYLE}]},
                {"reasoning_details": [
                    {"type": "reasoning.encrypted", "data": "eA==", "id": None, "index": 1}]},
                *fragments(call()),
            ],
            {
                "content": None,
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "Hm, well.", **STYLE, "signature": "c2ln"},
                    {"type": "reasoning.encrypted", "data": "eA==", "id": None, "index": 1},
                ],
                "tool_calls": [call()],
            },
            id="claude at openrouter",
        ),
        pytest.param(
            "groq",
            "openai/gpt-oss-120b",
            [{"reasoning": "Hm."}, {"x_new": 1}, *fragments(call())],
            {"content": None, "reasoning": "Hm.", "tool_calls": [call()]},
            id="groq, whose messages are closed",
        ),
        pytest.param(
            "mistral",
            "magistral-medium-latest",
            [
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm, "}]}]},
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "well."}],
                              "closed": True}]},
                {"content": "Su"},
                {"content": "re."},
                {"tool_calls": [{**MISTRALS, "index": 0}]},
            ],
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm, well."}],
                     "closed": True},
                    {"type": "text", "text": "Sure."},
                ],
                "tool_calls": [MISTRALS],
            },
            id="mistral",
        ),
        pytest.param(
            "vllm",
            "some-model",
            [
                {"reasoning": "Hm.", "reasoning_content": "Hm.", "x_new": {"a": [1]}},
                *fragments(call(1, provider_specific_fields={"b": None})),
            ],
            {
                "content": None,
                "reasoning_content": "Hm.",
                "x_new": {"a": [1]},
                "tool_calls": [call(1, provider_specific_fields={"b": None})],
            },
            id="fields that nobody knows",
        ),
    ],
)  # fmt: skip
def test_a_reply_goes_back_as_it_came(
    name: str, model: str, deltas: list[Object], reply: Object
) -> None:
    assert second(host(name, model), deltas)[1] == {"role": "assistant", **reply}


def test_another_model_gets_the_plain_form() -> None:
    came = streamed(
        host("vllm", "some-model"),
        [{"reasoning": "Hm.", "x_new": 1}, *fragments(call(1, x_new=2))],
    )
    other = host("vllm", "other-model")

    message = sent_by(other, [ASKED, came, answered(came)])["messages"][1]

    assert message == {"role": "assistant", "content": None, "tool_calls": [call()]}


def test_thoughts_of_gemini_are_shown_apart_from_its_answer() -> None:
    events: list[Event] = []
    deltas: list[Object] = [
        {"content": "<thought>Hm.", "extra_content": {"google": {"thought": True}}},
        {"content": "</thought>Yes."},
    ]

    message = streamed(host("gemini", "gemini-3.1-pro-preview"), deltas, events.append)

    assert events == [ThinkingDelta(text="Hm."), TextDelta(text="Yes.")]
    assert text_of(message) == "Yes."


def test_details_that_came_without_words_beside_them_are_shown() -> None:
    events: list[Event] = []
    details = [{"type": "reasoning.summary", "summary": "Hm.", "index": 0}]

    streamed(host("openrouter", "openai/gpt-6"), [{"reasoning_details": details}], events.append)

    assert events == [ThinkingDelta(text="Hm.")]


@pytest.mark.parametrize(
    ("pieces", "details"),
    [
        ([{"index": 0, "id": None}, {"index": 0, "id": "r1"}], [{"index": 0, "id": "r1"}]),
        ([{"index": 0}, {"index": 1}], [{"index": 0}, {"index": 1}]),
        ([{"id": "r1"}, {"id": "r2"}], [{"id": "r1"}, {"id": "r2"}]),
    ],
)
def test_pieces_of_a_detail_are_told_apart(pieces: list[Object], details: list[Object]) -> None:
    text = {"type": "reasoning.text", "text": "ab"}
    deltas: list[Object] = [{"reasoning_details": [{**text, **piece}]} for piece in pieces]
    provider = host("openrouter", "some/model")

    (thinking, _) = streamed(provider, [*deltas, {"content": "x"}]).parts

    size = "abab" if len(details) == 1 else "ab"
    assert isinstance(thinking, Thinking)
    assert thinking.own == {
        "reasoning_details": [{**text, "text": size, **detail} for detail in details]
    }


def test_unsigned_thinking_does_not_go_back() -> None:
    cut: list[Object] = [
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm", **STYLE}]},
        {"content": "So"},
        {"choices": [{"delta": {}, "finish_reason": "length"}]},
    ]
    provider = host("openrouter", "anthropic/claude-sonnet-5.5")
    message = streamed(provider, cut)

    body = sent_by(provider, [ASKED, message, user_message("Go on.")])

    assert body["messages"][1] == {"role": "assistant", "content": "So"}


def test_a_cut_call_goes_back_in_plain_form() -> None:
    made = {**call(1, **SIGNED), "index": 0}
    made["function"] = {"name": "read_file", "arguments": '{"pa'}
    provider = host("gemini", "gemini-3.1-pro-preview")

    message = streamed(
        provider, [{"tool_calls": [made]}, {"choices": [{"delta": {}, "finish_reason": "length"}]}]
    )

    assert calls_of(message)[0].own is None


def test_a_bound_thought_stays_behind_when_what_it_answered_changed() -> None:
    detail = {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", **STYLE}
    deltas: list[Object] = [{"reasoning_details": [detail]}, {"content": "Yes."}]
    kept = []
    for model in ("anthropic/claude-sonnet-5.5", "deepseek/deepseek-v4"):
        provider = host("openrouter", model)
        came = streamed(provider, deltas)
        moved = Message(
            role="assistant", parts=came.parts, stop="end", origin=came.origin, moved=True
        )
        body = sent_by(provider, [ASKED, moved, ASKED])
        kept.append("reasoning_details" in body["messages"][1])

    assert kept == [False, True]


# ── what came from elsewhere ─────────────────────────────────────────────────────────────────

LONG_ID = "toolu_01VpEm654HvfMoRcrE3Hgdc6" + "x" * 20
FOREIGN = [
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
        parts=(
            ToolResult(call_id=LONG_ID, name="read_file", text="a"),
            ToolResult(call_id="call_2", name="read_file", text="b"),
        ),
    ),
    Message(role="assistant", parts=(Text(text="Done."),), stop="end", origin="responses:openai/x"),
    user_message("Thanks."),
]


@pytest.mark.parametrize(
    ("name", "model", "stand_in"),
    [("deepseek", "deepseek-v4-pro", ""), ("moonshot", "kimi-k3", " "), ("zai", "glm-5.3", None)],
)
def test_a_host_that_wants_thinking_with_each_reply_gets_some(
    name: str, model: str, stand_in: str | None
) -> None:
    provider = host(name, model)
    own = streamed(provider, [{"reasoning_content": ""}, *fragments(call())])
    messages = sent_by(provider, [*FOREIGN, own, answered(own)])["messages"]

    *foreign, last = [message for message in messages if message["role"] == "assistant"]
    assert [reply.get("reasoning_content") for reply in foreign] == [stand_in, stand_in]
    assert last["reasoning_content"] == (stand_in or "")


@pytest.mark.parametrize(
    ("model", "signatures"),
    [
        ("gemini-3.1-pro-preview", ["skip_thought_signature_validator", None]),
        ("models/gemini-3.8-flash", ["skip_thought_signature_validator", None]),
        ("gemini-2.5-pro", [None, None]),
    ],
)
def test_gemini_gets_a_signature_on_a_first_foreign_call(
    model: str, signatures: list[str | None]
) -> None:
    calls = sent_by(host("gemini", model), FOREIGN)["messages"][1]["tool_calls"]

    extras = [made.get("extra_content", {}).get("google", {}) for made in calls]
    assert [extra.get("thought_signature") for extra in extras] == signatures


def test_mistral_gets_ids_of_nine_characters_and_tool_names() -> None:
    messages = sent_by(host("mistral", "devstral-latest"), FOREIGN)["messages"]

    asked = [made["id"] for made in messages[1]["tool_calls"]]
    results = [message for message in messages if message["role"] == "tool"]
    assert [result["tool_call_id"] for result in results] == asked
    assert {len(each) for each in asked} == {9}
    assert all(each.isalnum() for each in asked)
    assert {result["name"] for result in results} == {"read_file"}


@pytest.mark.parametrize("with_picture", [False, True])
def test_no_user_follows_a_result_at_mistral(tmp_path: Path, with_picture: bool) -> None:
    image = keep(tmp_path, "shot.png", pictures.png())
    history = FOREIGN[:3]
    if with_picture:
        history[2] = Message(role="tool", parts=(*history[2].parts, image))
    asked = [*history, user_message("And?")]
    roles = {}
    for name in ("mistral", "vllm"):
        messages = sent_by(host(name, "m", sees_images=True), asked)["messages"]
        roles[name] = [message["role"] for message in messages[4:]]

    user = ["user", "user"] if with_picture else ["user"]
    assert roles == {"mistral": ["assistant", *user], "vllm": user}


# ── caching ──────────────────────────────────────────────────────────────────────────────────


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [unmarked(each) for each in value] if isinstance(value, list) else value


def marks_of(body: Object) -> list[int]:
    """The places of the messages with a mark."""
    messages = body["messages"]
    return [at for at, message in enumerate(messages) if "cache_control" in json.dumps(message)]


def test_claude_at_openrouter_is_marked_where_it_pays() -> None:
    provider = host("openrouter", "anthropic/claude-sonnet-5.5")
    history: list[Message] = []
    bodies = []
    for number in range(8):
        history.append(user_message(f"Read {number}."))
        bodies.append(sent_by(provider, history, system="You are kode.", tools=(READ,)))
        made = streamed(provider, fragments(call(number)))
        history += [made, answered(made)]
        bodies.append(sent_by(provider, history, system="You are kode.", tools=(READ,)))
        history.append(streamed(provider, [{"content": "Done."}]))

    assert marks_of(bodies[0]) == [0, 1]
    assert marks_of(bodies[1]) == [0, 1, 3]
    assert marks_of(bodies[2]) == [0, 3, 5]
    assert [len(marks_of(body)) for body in bodies[1:]] == [3] * 15
    for earlier, later in itertools.pairwise(bodies):
        before, after = unmarked(earlier["messages"]), unmarked(later["messages"])
        assert after[: len(before)] == before


def test_claude_is_marked_at_every_address_unless_forbidden() -> None:
    settings = settings_of("openai", "claude-sonnet-5-5", api_key="k", base_url="http://proxy/v1")
    gateway, plain = open_chat(settings), open_chat(replace(settings, cache="none"))

    assert marks_of(sent_by(gateway, [ASKED], system="You are kode.")) == [0, 1]
    assert marks_of(sent_by(plain, [ASKED], system="You are kode.")) == []


@pytest.mark.parametrize(
    ("name", "model"), [("openrouter", "openai/gpt-6"), ("deepseek", "deepseek-v4-pro")]
)
def test_others_are_not_marked(name: str, model: str) -> None:
    body = sent_by(host(name, model), [ASKED], system="You are kode.")

    assert [message["content"] for message in body["messages"]] == ["You are kode.", "Read a."]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("openai", "prompt_cache_key"),
        ("moonshot", "prompt_cache_key"),
        ("openrouter", "session_id"),
        ("groq", None),
        ("vllm", None),
    ],
)
def test_a_session_is_named_where_that_finds_its_cache(name: str, field: str | None) -> None:
    body = sent_by(host(name, "m"), [ASKED], conversation="s1")

    assert {key for key, value in body.items() if value == "s1"} == ({field} if field else set())


# ── effort ───────────────────────────────────────────────────────────────────────────────────

LEVELS = ("low", "high", "max")


@for_each(
    ("switch", "level", "settings"),
    [
        ("reasoning_effort", "high", {"reasoning_effort": "high"}),
        ("reasoning_effort", "none", {"reasoning_effort": "none"}),
        ("reasoning", "high", {"reasoning": {"effort": "high"}}),
        ("reasoning", "none", {"reasoning": {"effort": "none"}}),
        ("together", "high", {"reasoning": {"enabled": True}, "reasoning_effort": "high"}),
        ("together", "none", {"reasoning": {"enabled": False}}),
        ("thinking", "high", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("thinking", "none", {"thinking": {"type": "disabled"}}),
        ("kimi", "high", {"reasoning_effort": "high"}),
        ("kimi", "none", {"thinking": {"type": "disabled"}}),
        ("zai", "high", {
            "thinking": {"type": "enabled", "clear_thinking": False}, "reasoning_effort": "high"}),
        ("zai", "none", {"thinking": {"type": "disabled"}}),
        ("zai", None, {"thinking": {"type": "enabled", "clear_thinking": False}}),
        ("template", "high", {"chat_template_kwargs": {"enable_thinking": True}}),
        ("template", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("thinking", None, {}),
        ("reasoning_effort", None, {}),
        ("", "high", {}),
    ],
)  # fmt: skip
def test_each_switch_has_its_words(switch: str, level: Any, settings: Object) -> None:
    assert thinking_settings(switch, level) == settings


@pytest.mark.parametrize("level", [None, "high"])
def test_kimi_models_without_levels_keep_what_they_thought(level: Any) -> None:
    settings = thinking_settings("kimi", level, has_levels=False)

    assert settings == {"thinking": {"type": "enabled", "keep": "all"}}


THINKING = {
    "reasoning_effort", "reasoning", "thinking", "extra_body", "chat_template_kwargs"
}  # fmt: skip


def thinking_of(provider: HttpProvider, effort: Any = None) -> Object:
    body = sent_by(provider, [ASKED], effort=effort)
    return {key: value for key, value in body.items() if key in THINKING}


def shown(**config: Any) -> Object:
    return {"extra_body": {"google": {"thinking_config": {"include_thoughts": True, **config}}}}


@for_each(
    ("name", "model", "facts", "effort", "settings"),
    [
        # A level that the model has not becomes the nearest.
        ("deepseek", "m", {"efforts": LEVELS}, "medium",
         {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}),
        # Without a level of the person's own, the vendor's recommendation or nothing.
        ("deepseek", "m", {"efforts": LEVELS, "default_effort": "high"}, None,
         {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("deepseek", "m", {"efforts": LEVELS}, None, {}),
        ("xai", "m", {}, None, {}),
        # No level is known: the server decides.
        ("xai", "m", {}, "high", {"reasoning_effort": "high"}),
        ("deepseek", "m", {"efforts": LEVELS}, "none", {"thinking": {"type": "disabled"}}),
        # Servers of which nothing is known are only asked for what a person asked for.
        ("vllm", "m", {"efforts": LEVELS, "default_effort": "high"}, None, {}),
        ("vllm", "m", {}, "low", {"chat_template_kwargs": {"enable_thinking": True}}),
        ("ollama", "m", {"efforts": LEVELS, "default_effort": "high"}, None, {}),
        ("ollama", "m", {}, "low", {"reasoning_effort": "low"}),
        ("openrouter", "m", {"thinking": ("enabled", "disabled")}, None,
         {"reasoning": {"enabled": True}}),
        ("openrouter", "m", {"thinking": ("disabled",)}, None, {}),
        ("gemini", "gemini-3.8-flash", {"efforts": ("low", "high")}, "high",
         shown(thinking_level="high")),
        ("gemini", "gemini-3.8-flash", {"efforts": ("low", "high")}, None, shown()),
        ("gemini", "gemini-3.8-flash", {"efforts": ("low", "high")}, "none",
         {"reasoning_effort": "none"}),
        ("gemini", "gemini-2.5-pro", {"efforts": ("low", "high")}, "high",
         {"reasoning_effort": "high"}),
        ("gemini", "gemini-2.5-pro", {"efforts": ("low", "high")}, None, {}),
    ],
)  # fmt: skip
def test_effort_is_asked_for_as_the_host_has_it(
    name: str, model: str, facts: Object, effort: Any, settings: Object
) -> None:
    assert thinking_of(host(name, model, **facts), effort) == settings


# ── further differences ──────────────────────────────────────────────────────────────────────


def test_glm_streams_the_arguments_of_calls() -> None:
    provider = host("zai", "glm-5.3")

    assert sent_by(provider, [ASKED], tools=(READ,))["tool_stream"] is True
    assert "tool_stream" not in sent_by(provider, [ASKED])


def test_mistral_is_not_asked_for_usage() -> None:
    assert "stream_options" not in sent_by(host("mistral", "m"), [ASKED])


@pytest.mark.parametrize(("name", "is_sent"), [("openrouter", True), ("gemini", False)])
def test_a_pdf_goes_where_it_is_taken(
    monkeypatch: pytest.MonkeyPatch, name: str, is_sent: bool
) -> None:
    monkeypatch.setattr(encoding, "bytes_of", lambda image: b"%PDF-1.7")
    facts: Object = {"width": 0, "height": 0, "size_bytes": 8, "kept_in": "/kept/a.pdf"}
    pdf = Image(name="a.pdf", media_type="application/pdf", **facts)
    asked = Message(role="user", parts=(pdf, Text(text="Read.")))

    part, _ = sent_by(host(name, "m", sees_pdf=None), [asked])["messages"][0]["content"]

    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}
    if is_sent:
        assert part == {"type": "file", "file": file}
    else:
        assert part["type"] == "text"
        assert "a.pdf" in part["text"]


def test_web_search_is_a_tool_beside_the_others() -> None:
    search = {"type": "openrouter:web_search"}
    provider = host("openrouter", "m")
    with_tools = sent_by(provider, [ASKED], tools=(READ,), search=True)["tools"]

    assert with_tools[1:] == [search]
    assert sent_by(provider, [ASKED], search=True)["tools"] == [search]
    assert len(sent_by(provider, [ASKED], tools=(READ,))["tools"]) == 1
    assert "tools" not in sent_by(host("gemini", "m"), [ASKED], search=True)


def test_pages_that_an_answer_cites_are_kept_beside_it() -> None:
    page = {"url": "https://a.example/x", "title": "About a", "start_index": 0, "end_index": 3}
    cited = {"type": "url_citation", "url_citation": page}
    provider = host("openrouter", "m")

    message = streamed(provider, [{"content": "a."}, {"content": "", "annotations": [cited]}])

    assert message.parts == (
        Text(text="a."),
        ServerItem(own={"annotations": [cited]}, text="About a https://a.example/x"),
    )
    asked = [ASKED, message, ASKED]
    assert sent_by(provider, asked)["messages"][1]["annotations"] == [cited]
    assert "annotations" not in sent_by(host("openrouter", "n"), asked)["messages"][1]


@pytest.mark.parametrize(
    ("name", "usage", "counts"),
    [
        ("openrouter", {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
                        "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 4},
                        "completion_tokens_details": {"reasoning_tokens": 3}}, (9, 5, 2, 4, 3)),
        ("gemini", {"prompt_tokens": 16, "completion_tokens": 9, "total_tokens": 627},
         (16, 611, 0, 0, 602)),
        ("xai", {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 14,
                 "completion_tokens_details": {"reasoning_tokens": 3}}, (9, 5, 0, 0, 3)),
        ("vllm", {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 99}, (9, 2, 0, 0, 0)),
    ],
)  # fmt: skip
def test_thinking_tokens_are_counted(name: str, usage: Object, counts: tuple[int, ...]) -> None:
    deltas: list[Object] = [{"content": "Hi"}, {"choices": [], "usage": usage}]

    found = streamed(host(name, "m"), deltas).usage

    assert found is not None
    assert counts == (
        found.input_tokens,
        found.output_tokens,
        found.cached_tokens,
        found.cache_write_tokens,
        found.thinking_tokens,
    )


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


# ── against a server as strict as the vendors' ───────────────────────────────────────────────

MODELS = {
    "openai": "gpt-4.1",
    "gemini": "gemini-3.1-pro-preview",
    "openrouter": "anthropic/claude-sonnet-5.5",
    "deepseek": "deepseek-v4-pro",
    "mistral": "devstral-latest",
    "moonshot": "kimi-k2.6",
    "groq": "openai/gpt-oss-120b",
}
STRICT = [
    row.name for row in PROVIDERS if "chat" in row.apis and row.name not in ("azure", "bedrock")
]


# gpt-4.1 has no effort, and later models are not served here with tools.
LEVELS = [(n, e) for n in STRICT for e in (None, "high", "none") if not (n == "openai" and e)]


@pytest.mark.parametrize(("name", "effort"), LEVELS)
async def test_a_session_passes_with_each_vendor(name: str, effort: Any) -> None:
    """Two steps with calls and a further turn, behind a history of other models."""
    is_open = host(name, "m").row.dialect.is_open
    extra: Object = {"extra": {"x_new": {"a": [1, None, "é"]}, "y_new": "s"}} if is_open else {}
    calls = [{"name": "read_file", "arguments": {"path": path}} for path in ("a", "b")]
    script: list[Object] = [
        {"thinking": "I look. é", "text": "Reading.", "calls": calls, **extra},
        {"calls": calls[:1]},
        {"thinking": "Done.", "text": "It says hi."},
        {"text": "Bye."},
    ]
    with StrictServer(script, vendor=name) as server:
        provider = host(name, MODELS.get(name, "some-model"))
        provider._endpoint = replace(provider._endpoint, base_url=server.url)
        history: list[Message] = list(FOREIGN)
        for _ in script:
            request = Request(
                system="You are kode. " * 400, messages=history, tools=(READ,), effort=effort
            )
            reply = await provider.reply(request, lambda event: None)
            history.append(reply)
            history.append(answered(reply) if calls_of(reply) else user_message("Next."))
        await provider.aclose()

    assert server.refusals == []
    assert server.soft_faults == []
    assert len(server.requests) == len(script)
