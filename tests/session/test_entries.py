import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from kode.durable import seal
from kode.messages import (
    Message,
    Part,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    calls_of,
)
from kode.session.entries import (
    OWN_TYPES,
    CompactionEntry,
    Entry,
    Header,
    MessageEntry,
    PluginEntry,
    StateEntry,
    SystemEntry,
    UsageEntry,
    encode_line,
    parse_line,
)
from tests.tables import for_each

KEY = "sk-ant-api03-" + "aB3dE5gH7jK9" * 8
REPLY = (
    Thinking(text="", redacted="xyz", origin="anthropic/m"),
    Text(text="größer 💡\n\x00\x1b"),
    ToolCall(id="c1", name="shell", arguments=""),
)
REFUSAL = Refusal(by="person", message="not now", decisive="`rm x` deletes.", of="changes")
RESULT = ToolResult(call_id="1", name="shell", text="x", refusals=(REFUSAL,), cut="interrupted")


@for_each(
    "entry",
    [
        MessageEntry(
            role="assistant",
            parts=REPLY,
            stop="tool_calls",
            usage=Usage(input_tokens=3, cached_tokens=2),
            model="m",
        ),
        MessageEntry(role="tool", parts=(RESULT,)),
        StateEntry(system="vault", state={"error": "", "reason": None, "model": [], "n": 0}),
        UsageEntry(purpose="memory", usage=Usage(), cost_usd=0.0, model="m"),
        PluginEntry(type="x-tally", value={"calls": 0, "none": None, "list": [], "usage": {}}),
    ],
)
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    assert parse_line(encode_line(entry)) == entry


def test_a_line_leaves_out_empty_values_and_begins_with_type() -> None:
    line = encode_line(MessageEntry(role="user", parts=(Text(text="hi"),), id="a", at="b"))

    assert line == seal(
        b'{"type":"message","role":"user","parts":[{"text":"hi","type":"text"}],"id":"a","at":"b"}'
    )


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    line = encode_line(CompactionEntry(summary="s"))[:-1] + b',"colour":"blue"}'

    assert isinstance(parse_line(line), CompactionEntry)


def message_again(message: Message) -> MessageEntry:
    entry = parse_line(encode_line(MessageEntry(role=message.role, parts=message.parts)))
    return entry


def test_lines_of_an_earlier_version_are_read() -> None:
    system = {"type": "system", "text": "One.\n\nTwo.", "sections": {"kode": 4, "memory": 4}}
    context = {"type": "context", "of": "m1", "parts": [{"type": "text", "text": "Today."}]}
    lines = (json.dumps(it, separators=(",", ":")).encode() for it in (system, context))
    begun, before = (parse_line(seal(line)) for line in lines)
    assert isinstance(begun, SystemEntry)
    assert begun.sections == {"kode": "One.", "memory": "Two."}
    assert isinstance(before, MessageEntry)
    assert (before.role, before.of, before.parts) == ("user", "m1", (Text(text="Today."),))


def test_a_system_prompt_that_was_sent_is_written_once() -> None:
    begun = SystemEntry(sections={"kode": "One.", "memory": "Two."})
    line = encode_line(begun)
    assert begun.text == "One.\n\nTwo."

    assert encode_line(begun) == line


def test_half_a_character_is_written_as_a_question_mark() -> None:
    message = Message(role="user", parts=(Text(text="a\ud800b"),))

    assert message_again(message).parts == (Text(text="a?b"),)


@for_each(
    ("role", "part"),
    [
        ("user", Text(text=f"my key is {KEY}, use it")),
        ("tool", ToolResult(call_id="c", name="shell", text=f"KEY={KEY}")),
        ("assistant", ToolCall(id="c", name="shell", arguments=f'{{"a": "export K=\\"{KEY}\\""}}')),
    ],
)
def test_credentials_never_reach_a_line(role: Role, part: Part) -> None:
    line = encode_line(MessageEntry(role=role, parts=(part,)))

    assert KEY.encode() not in line
    assert b"[redacted" in line


def test_masked_arguments_of_a_call_are_still_an_object() -> None:
    arguments = json.dumps({"env": {"password": "hG7kk2hunterPq9z"}, "command": f'echo "{KEY}"'})
    call = ToolCall(id="c", name="shell", arguments=arguments)

    (call,) = calls_of(message_again(Message(role="assistant", parts=(call,))))

    assert set(json.loads(call.arguments)) == {"env", "command"}
    assert "hG7kk2hunterPq9z" not in call.arguments
    assert KEY not in call.arguments


def test_thinking_that_was_masked_loses_its_signature() -> None:
    thinking = Thinking(text=f"the key is {KEY}", signature="sig", origin="anthropic/m")

    (part,) = message_again(Message(role="assistant", parts=(thinking,))).parts

    assert part.signature == ""


def test_the_first_line_has_the_fields_that_scripts_rely_on() -> None:
    about = {"id": "i", "created_at": "t", "cwd": "/w", "model": "m", "provider": "openai"}
    line = json.loads(encode_line(Header(**about)))  # type: ignore[arg-type]

    assert line == {"type": "session", **about, "version": 1, "sum": "598d20f6"}


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
