import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from kode.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage
from kode.record_log import seal
from kode.session.entries import (
    OWN_TYPES,
    CompactionEntry,
    Header,
    MessageEntry,
    PluginEntry,
    StateEntry,
    UsageEntry,
    line_of,
    parse_line,
)

KEY = "sk-ant-api03-" + "aB3dE5gH7jK9" * 8


def test_a_message_comes_back_as_it_was() -> None:
    entry = MessageEntry(
        role="assistant",
        parts=(
            Thinking(text="", redacted="xyz", origin="anthropic/m"),
            Text(text="größer 💡\n\x00\x1b"),
            ToolCall(id="c1", name="shell", arguments=""),
        ),
        stop="tool_calls",
        usage=Usage(input_tokens=3, cached_tokens=2),
        model="m",
    )

    assert parse_line(line_of(entry)) == entry


def test_a_line_leaves_out_empty_values_and_begins_with_type() -> None:
    line = line_of(MessageEntry(role="user", parts=(Text(text="hi"),), id="a", at="b"))

    assert line == seal(
        b'{"type":"message","role":"user","parts":[{"text":"hi","type":"text"}],"id":"a","at":"b"}'
    )


def test_the_state_of_memory_is_kept_whole() -> None:
    state = {"error": "", "reason": None, "model": [], "n": 0}

    entry = parse_line(line_of(StateEntry(system="vault", state=state)))

    assert isinstance(entry, StateEntry)
    assert entry.state == state


def test_a_free_request_is_not_one_of_unknown_price() -> None:
    free = UsageEntry(purpose="memory", usage=Usage(), cost_usd=0.0, model="m")

    entry = parse_line(line_of(free))

    assert isinstance(entry, UsageEntry)
    assert entry.cost_usd == 0.0


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    line = line_of(CompactionEntry(summary="s"))[:-1] + b',"colour":"blue"}'

    assert isinstance(parse_line(line), CompactionEntry)


def test_half_a_character_is_written_as_a_question_mark() -> None:
    line = line_of(MessageEntry(role="user", parts=(Text(text="a\ud800b"),)))

    entry = parse_line(line)

    assert isinstance(entry, MessageEntry)
    assert entry.parts == (Text(text="a?b"),)


@pytest.mark.parametrize(
    "message",
    [
        Message(role="user", parts=(Text(text=f"my key is {KEY}, use it"),)),
        Message(role="tool", parts=(ToolResult(call_id="c", name="shell", text=f"KEY={KEY}"),)),
        Message(
            role="assistant",
            parts=(
                ToolCall(
                    id="c",
                    name="shell",
                    arguments=json.dumps({"command": f'export K="{KEY}"\necho'}),
                ),
            ),
        ),
    ],
)
def test_credentials_never_reach_a_line(message: Message) -> None:
    line = line_of(MessageEntry(role=message.role, parts=message.parts))

    assert KEY.encode() not in line
    assert b"[redacted" in line


def test_masked_arguments_of_a_call_are_still_an_object() -> None:
    arguments = json.dumps({"env": {"password": "hG7kk2hunterPq9z"}, "command": f'echo "{KEY}"'})
    line = line_of(
        MessageEntry(role="assistant", parts=(ToolCall(id="c", name="shell", arguments=arguments),))
    )

    entry = parse_line(line)

    assert isinstance(entry, MessageEntry)
    call = entry.parts[0]
    assert isinstance(call, ToolCall)
    assert set(json.loads(call.arguments)) == {"env", "command"}
    assert "hG7kk2hunterPq9z" not in call.arguments
    assert KEY not in call.arguments


def test_thinking_that_was_masked_loses_its_signature() -> None:
    thinking = Thinking(text=f"the key is {KEY}", signature="sig", origin="anthropic/m")
    line = line_of(MessageEntry(role="assistant", parts=(thinking,)))

    entry = parse_line(line)

    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.parts[0], Thinking)
    assert entry.parts[0].signature == ""


def test_the_first_line_has_the_fields_that_scripts_rely_on() -> None:
    header = Header(id="i", created_at="t", cwd="/w", model="m", provider="openai")

    assert json.loads(line_of(header)) == {
        "type": "session",
        "id": "i",
        "created_at": "t",
        "cwd": "/w",
        "model": "m",
        "provider": "openai",
        "version": 1,
        "sum": "598d20f6",
    }


def test_a_record_of_a_plugin_comes_back_as_it_was() -> None:
    entry = PluginEntry(type="x-tally", value={"calls": 0, "none": None, "list": [], "usage": {}})
    assert parse_line(line_of(entry)) == entry


def test_a_line_that_only_looks_like_a_plugins_is_damaged() -> None:
    with pytest.raises(ValueError):
        parse_line(b'{"type":"x-tally","value":3}')


def test_the_page_of_sessions_names_every_type_of_a_line() -> None:
    page = (Path(__file__).parents[2] / "docs/sessions.md").read_text()
    cells = re.findall(r"^\| (`.*?`) \| ", page, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert {
        field.default for kind in OWN_TYPES for field in fields(kind) if field.name == "type"
    } <= named
