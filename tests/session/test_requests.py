"""The record of a request: what it says of the parts, and that it can be checked later."""

import json
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kode.messages import Message, Text, ToolCall, ToolResult, user_message
from kode.provider import Request, ToolSpec
from kode.providers.openai_chat import OpenAIChat
from kode.session import log
from kode.session.entries import RequestEntry, line_of, parse_line
from kode.session.requests import Chain, complete, keep_tools, kept_tools, request_entry
from tests.providers.opened import settings_of

READ = ToolSpec(name="read_file", description="Reads.", parameters={"type": "object"})
EDIT = ToolSpec(name="edit_file", description="Edits.", parameters={"type": "object"})
PROVIDER = OpenAIChat(settings_of("openai", "gpt-5"))
KEY = "sk-proj-" + "Zx9Qw7Lm3Np5Rt8Vb2Kd" * 2


def record(
    *messages: Message,
    sections: dict[str, str] | None = None,
    tools: tuple[ToolSpec, ...] = (READ, EDIT),
    before: RequestEntry | None = None,
) -> RequestEntry:
    named = sections or {"kode": "Be good.", "memory": "Likes tea."}
    request = Request(system="\n\n".join(named.values()), messages=list(messages), tools=tools)
    return request_entry("turn", PROVIDER, request, sections=named, before=before)


def names(parts: object) -> list[str]:
    assert isinstance(parts, tuple)
    return [part.name for part in parts]


def test_a_record_names_sections_and_tools_in_their_order() -> None:
    made = record(user_message("hi"))
    assert names(made.system) == ["kode", "memory"]
    assert names(made.tools) == ["read_file", "edit_file"]
    assert made.system is not None
    assert made.system[0].size == len("Be good.")
    assert made.messages == 1


def test_a_record_leaves_out_everything_repeated() -> None:
    first = record(user_message("hi"))
    same = record(user_message("hi"), before=first)
    assert (same.system, same.tools) == (None, None)
    assert complete(same, first) == replace(first, id=same.id, at=same.at)

    fact = {"kode": "Be good.", "memory": "Likes coffee."}
    other = record(user_message("hi"), sections=fact, tools=(READ,), before=first)
    assert names(other.system) == ["kode", "memory"]
    assert names(other.tools) == ["read_file"]


def test_losing_all_tools_differs_from_no_change() -> None:
    first = record(user_message("hi"))
    none = record(user_message("hi"), tools=(), before=first)
    read = parse_line(line_of(none))
    assert isinstance(read, RequestEntry)
    assert complete(read, first).tools == ()


WORDS = st.lists(st.text(max_size=20), min_size=1, max_size=12)


@given(said=WORDS, cut=st.integers(min_value=0, max_value=12))
def test_a_digest_stands_for_all_messages_up_to_its_own(said: list[str], cut: int) -> None:
    messages = [user_message(text) for text in said]
    whole = Chain().of(messages)
    growing: list[Message] = []
    chain = Chain()
    for message in messages:
        growing.append(message)
        chain.of(growing)
    assert chain.of(growing) == whole
    cut = min(cut, len(messages) - 1)
    other = Chain().of([*messages[:cut], user_message(said[cut] + "!"), *messages[cut + 1 :]])
    assert other[:cut] == whole[:cut]
    assert not set(other[cut:]) & set(whole[cut:])


def test_another_list_is_looked_at_from_its_beginning() -> None:
    chain = Chain()
    assert chain.of([user_message("a")]) != chain.of([user_message("b")])


def test_a_record_can_be_checked_against_its_file(tmp_path: Path) -> None:
    """Though credentials are masked on disk, and the model was sent them as they were."""
    session = log.create(tmp_path, cwd=tmp_path, model="m", provider="scripted")
    session.append_message(user_message(f"my key is {KEY}"))
    arguments = f'{{"command":"export API_KEY={KEY}"}}'
    call = ToolCall(id="c1", name="shell", arguments=arguments)
    session.append_message(Message(role="assistant", parts=(Text(text="ok"), call)))
    result = ToolResult(call_id="c1", name="shell", text=KEY)
    session.append_message(Message(role="tool", parts=(result,)))
    request = Request(system=f"secret {KEY}", messages=session.messages)
    session.append(request_entry("turn", PROVIDER, request))
    session.close()

    again, _ = log.load(tmp_path, session.header.id)
    again.close()

    assert KEY not in (tmp_path / "sessions" / f"{session.header.id}.jsonl").read_text()
    recorded = again.entries[-1]
    assert isinstance(recorded, RequestEntry)
    assert Chain().of(again.messages)[-1] == recorded.digest


def test_the_texts_of_tools_are_kept_once_for_all_sessions(tmp_path: Path) -> None:
    name = keep_tools(tmp_path, (READ, EDIT))
    assert keep_tools(tmp_path, (READ, EDIT)) == name
    assert len(list((tmp_path / "tool-texts").iterdir())) == 1
    kept = {tool: json.loads(text) for tool, text in kept_tools(tmp_path, name).items()}
    assert kept == {
        tool.name: {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        for tool in (READ, EDIT)
    }
    assert kept_tools(tmp_path, "0" * 64) == {}


def test_the_digest_of_a_result_knows_the_call() -> None:
    one, other = (
        Message(role="tool", parts=(ToolResult(call_id=id, name="shell", text="done"),))
        for id in ("a", "b")
    )
    assert Chain().of([one]) != Chain().of([other])
