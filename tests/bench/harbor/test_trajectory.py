import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st

from bench.harbor.trajectory import trajectory_of as document_of
from kode.errors import SessionError
from kode.messages import (
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    calls_of,
    user_message,
)
from kode.session.entries import (
    CompactionEntry,
    Entry,
    Header,
    MessageEntry,
    RewindEntry,
    SystemEntry,
    UsageEntry,
)
from kode.session.transcript import Transcript
from tests.session.stories import answer, asks, new_session, results, whole_story

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parent / "atif.schema.json").read_text())
)
"""Of ATIF 1.8: what Harbor's own model says of itself, without its words."""

HEADER = Header(id="20260102-030405-a1b2c3", created_at="", cwd="/w", model="m", provider="openai")


def entry_of(message: Message, **more: Any) -> MessageEntry:
    fields = {name: getattr(message, name) for name in ("role", "parts", "stop", "usage", "model")}
    return MessageEntry(**fields, **more)


def trajectory_of(*entries: Entry) -> dict[str, Any]:
    document = document_of(Transcript(header=HEADER, entries=entries), "0.1.0")
    SCHEMA.validate(document)
    return document


def test_a_stored_session_becomes_a_document_fitting_the_schema(
    tmp_path: Path,
) -> None:
    transcript = Transcript.read(whole_story(tmp_path).path)

    document = document_of(transcript, "1.2.3")

    SCHEMA.validate(document)
    sources = [step["source"] for step in document["steps"]]
    assert sources == ["system", "user", "agent", "agent", "user", "agent"]
    assert document["session_id"] == transcript.header.id
    assert document["agent"]["version"] == "1.2.3"
    assert document["agent"]["model_name"] == "m"


def test_results_stand_in_their_asking_step_in_order() -> None:
    document = trajectory_of(
        entry_of(user_message("look")),
        entry_of(asks("c1", "c2")),
        entry_of(results("c2", text="second")),
        entry_of(Message(role="user", parts=(Text(text="hurry", source="steering"),))),
        entry_of(results("c1", text="first")),
    )

    asked = document["steps"][1]
    assert [call["tool_call_id"] for call in asked["tool_calls"]] == ["c1", "c2"]
    assert asked["observation"]["results"] == [
        {"source_call_id": "c1", "content": "first"},
        {"source_call_id": "c2", "content": "second"},
    ]
    assert asked["reasoning_content"] == "hm"
    assert document["steps"][2]["message"] == "hurry"


def test_a_failed_or_unreadable_call_is_kept_unchanged() -> None:
    call = ToolCall(id="c", name="shell", arguments='{"command": ')
    failed = ToolResult(call_id="c", name="shell", text="not JSON", is_error=True)

    document = trajectory_of(
        entry_of(Message(role="assistant", parts=(call,))),
        entry_of(Message(role="tool", parts=(failed,))),
    )

    step = document["steps"][0]
    assert step["tool_calls"][0]["arguments"] == {"raw": '{"command": '}
    assert step["observation"]["results"][0]["extra"] == {"is_error": True}


def test_additions_of_kode_are_apart_or_the_systems_alone() -> None:
    picture = Image(
        name="shot.png", media_type="image/png", width=2, height=1, size_bytes=9, kept_in="/x"
    )

    document = trajectory_of(
        entry_of(Message(role="user", parts=(Text(text="where", source="opening"),))),
        entry_of(
            Message(
                role="user",
                parts=(Text(text="known", source="memory"), Text(text="do it"), picture),
            )
        ),
    )

    alone, asked = document["steps"]
    assert (alone["source"], alone["message"]) == ("system", "where")
    assert asked["source"] == "user"
    assert asked["message"].startswith("do it\n[image: shot.png")
    assert asked["extra"] == {"added": [{"source": "memory", "text": "known"}]}


def test_totals_include_requests_that_are_no_step() -> None:
    reply = entry_of(answer("done"), cost_usd=0.5)
    memory = UsageEntry(
        purpose="memory",
        usage=Usage(input_tokens=7, output_tokens=1, cached_tokens=3),
        cost_usd=0.25,
        model="small",
    )

    alone = trajectory_of(entry_of(user_message("go")), reply)
    together = trajectory_of(entry_of(user_message("go")), reply, memory)

    assert alone["steps"][1]["metrics"] == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "cached_tokens": 0,
        "cost_usd": 0.5,
    }
    assert "notes" not in alone
    assert together["final_metrics"] == {
        "total_prompt_tokens": 17,
        "total_completion_tokens": 6,
        "total_cached_tokens": 3,
        "total_cost_usd": 0.75,
        "total_steps": 2,
    }
    assert "memory" in together["notes"]


def test_a_cost_that_is_not_wholly_known_is_not_given() -> None:
    priced, unpriced = entry_of(answer("a"), cost_usd=0.5), entry_of(answer("b"))

    document = trajectory_of(priced, unpriced)

    assert "total_cost_usd" not in document["final_metrics"]


def test_a_compaction_is_a_step_and_keeps_earlier_ones() -> None:
    document = trajectory_of(
        SystemEntry(sections={"kode": "You are kode."}),
        entry_of(user_message("one")),
        CompactionEntry(summary="what was", tokens_before=900),
        entry_of(user_message("two")),
    )

    assert [step["message"] for step in document["steps"]] == [
        "You are kode.",
        "one",
        "what was",
        "two",
    ]
    assert document["steps"][2]["extra"]["context_management"]["type"] == "compaction"


def test_rewound_messages_are_no_step_but_were_paid() -> None:
    wrong = entry_of(user_message("wrong"))
    document = trajectory_of(
        entry_of(user_message("one")),
        wrong,
        entry_of(answer("re: wrong"), cost_usd=0.5),
        RewindEntry(to=wrong.id),
    )

    assert [step["message"] for step in document["steps"]] == ["one"]
    assert document["final_metrics"]["total_cost_usd"] == 0.5


def test_a_session_without_a_message_has_no_trajectory(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.close()

    with pytest.raises(SessionError, match="nothing to export"):
        document_of(Transcript(header=session.header, entries=session.entries), "0")


texts = st.text(max_size=8)
ids = st.sampled_from("abc")
calls = st.builds(ToolCall, id=ids, name=st.just("shell"), arguments=st.text('{}[]1" ', max_size=5))
messages = st.one_of(
    st.builds(user_message, texts),
    st.builds(
        lambda said, asked: Message(role="assistant", parts=(Text(text=said), *asked)),
        texts,
        st.lists(calls, max_size=3, unique_by=lambda call: call.id),
    ),
    st.builds(lambda one, text: results(one, text=text), ids, texts),
)


@given(st.lists(messages, max_size=12))
def test_every_result_stands_with_its_call_in_any_order(
    said: list[Message],
) -> None:
    entries = [entry_of(user_message("go")), *map(entry_of, said)]

    document = trajectory_of(*entries)

    steps = document["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    assert len(steps) == sum(entry.role != "tool" for entry in entries)
    for step in steps:
        asked = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        answered = [r["source_call_id"] for r in step.get("observation", {}).get("results", ())]
        assert set(answered) <= asked
        assert len(set(answered)) == len(answered)
    assert sum(len(s.get("tool_calls", ())) for s in steps) == sum(len(calls_of(m)) for m in said)


def test_a_subagent_has_its_own_trajectory_by_reference(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    session.append_message(asks("c1", "c2"))
    session.append_message(results("c1", "c2"))
    session.close()
    agents = session.path.with_suffix("") / "agents"
    for name, call in (("a1", "c2"), ("a2", "c2"), ("a3", None)):
        child = new_session(tmp_path / name)
        child.append_message(user_message(f"goal of {name}"))
        child.close()
        (agents / name).mkdir(parents=True)
        child.path.rename(agents / name / "transcript.jsonl")
        if call is not None:
            (agents / name / "agent.json").write_text(json.dumps({"call_id": call}))
    (agents / "broken").mkdir()
    (agents / "broken/transcript.jsonl").write_bytes(b"")

    document = document_of(Transcript.read(session.path), "0.1.0")

    SCHEMA.validate(document)
    children = {one["trajectory_id"]: one for one in document["subagent_trajectories"]}
    assert {name: one["steps"][0]["message"] for name, one in children.items()} == {
        name: f"goal of {name}" for name in ("a1", "a2", "a3")
    }
    first, second = document["steps"][1]["observation"]["results"]
    assert "subagent_trajectory_ref" not in first
    assert second["subagent_trajectory_ref"] == [{"trajectory_id": "a1"}, {"trajectory_id": "a2"}]
