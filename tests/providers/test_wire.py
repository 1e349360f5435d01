import json
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kode.messages import Message, Part, Text, user_message
from kode.providers.chat import message_bytes
from kode.providers.encoding import FEW, EncodedMessages, WireForm
from kode.providers.request import CONTEXT_REPLY, split_context_message

STEPS = st.lists(
    st.sampled_from(["append", "append", "silent", "replace", "shorten", "another"]), max_size=40
)


def walk(steps: list[str], check: Callable[[list[Message]], None]) -> None:
    """Calls `check` with a session's list after each step, and with others in between."""
    messages = [user_message(f"message {number} at first") for number in range(FEW - 2)]
    for number, step in enumerate(steps):
        match step:
            case "append":
                messages.append(user_message(f"message {number}"))
            case "silent":  # an answer without text has no wire form
                messages.append(Message(role="assistant", parts=()))
            case "replace":
                messages = [user_message("anew"), *messages[1:]]
            case "shorten":
                messages = messages[: len(messages) // 2]
            case _:
                check([user_message(f"beside {number}")] * (number % (2 * FEW)))
        check(messages)


encode = partial(message_bytes, form=WireForm())


def joined(messages: list[Message]) -> list[Any]:
    wires = EncodedMessages(encode, joins_users=True).of(messages)
    return [json.loads(wire) for wire in wires if wire]


@given(STEPS, st.booleans())
def test_encoding_step_by_step_equals_encoding_afresh(steps: list[str], joins: bool) -> None:
    encoded = EncodedMessages(encode, joins_users=joins)

    def check(messages: list[Message]) -> None:
        assert encoded.of(messages) == EncodedMessages(encode, joins_users=joins).of(messages)

    walk(steps, check)


def test_user_messages_in_a_row_become_one() -> None:
    answer = Message(role="assistant", parts=(Text(text="yes"),), stop="end")
    silent = Message(role="assistant", parts=(), stop="end")
    messages = [user_message("a"), user_message("b"), answer, user_message("c"), silent]

    assert [(m["role"], m["content"]) for m in joined([*messages, user_message("d")])] == [
        ("user", "a\n\nb"),
        ("assistant", "yes"),
        ("user", "c\n\nd"),
    ]


def test_memory_before_the_first_message_stays_a_message() -> None:
    index = Message(role="user", parts=(Text(text="Available memory: ...", source="memory"),))
    recalled = (Text(text="an episode", source="memory"), Text(text="a"))
    messages = [index, Message(role="user", parts=recalled), user_message("b")]

    contents = [message["content"] for message in joined(messages)]
    assert contents == ["Available memory: ...", "an episode\n\na\n\nb"]


def test_a_message_is_encoded_once_while_its_list_grows() -> None:
    seen: list[Message] = []

    def note(message: Message) -> bytes:
        seen.append(message)
        return encode(message)

    messages = [Message(role="assistant", parts=(Text(text=str(n)),)) for n in range(FEW)]
    for joins in (True, False):
        encoded = EncodedMessages(note, joins_users=joins)
        encoded.of(messages)
        seen.clear()
        for number in range(5):
            encoded.of([user_message("a question beside")])
            messages.append(Message(role="assistant", parts=(Text(text=f"more {number}"),)))
            encoded.of(messages)
        assert seen.count(messages[0]) == 0
        assert len(seen) == 10


CONVERSATIONS = st.lists(
    st.builds(
        lambda role, sources: Message(
            role=role,
            parts=tuple(
                Text(text=f"{source} {name} {n}", source=source, section_name=name)
                for n, source, name in sources
            ),
        ),
        st.sampled_from(["user", "assistant"]),
        st.lists(
            st.tuples(
                st.integers(),
                st.sampled_from(["", "opening", "memory", "note"]),
                st.sampled_from(["", "recall"]),
            )
        ),
    )
)


@given(CONVERSATIONS)
def test_setting_context_apart_loses_nothing_and_keeps_the_order(messages: list[Message]) -> None:
    said = [one for one in messages if one.role == "assistant"]
    before = [part for one in messages for part in one.parts]

    found = [one for one in split_context_message(messages) if one is not CONTEXT_REPLY]

    assert [one for one in found if one.role == "assistant"] == said
    assert [part for one in found for part in one.parts] == before


def test_the_opening_stays_with_the_question_without_memory() -> None:
    place: Part = Text(text="# Where you are", source="opening")
    question = Message(role="user", parts=(place, Text(text="Which port?")))

    assert split_context_message([question]) == [question]


@given(CONVERSATIONS)
def test_messages_for_a_large_model_stay_as_they_were(messages: list[Message]) -> None:
    plain = [m for m in messages if not any(getattr(p, "section_name", "") for p in m.parts)]

    assert all(a is b for a, b in zip(split_context_message(plain), plain, strict=True))


def test_words_of_the_person_stand_alone_behind_context() -> None:
    place: Part = Text(text="# Where you are", source="opening")
    facts = Text(text="facts", source="memory", section_name="recall")
    memory = Message(role="user", parts=(facts,))
    question = Message(role="user", parts=(place, Text(text="Which port?")))

    found = split_context_message([memory, question])

    assert [one.role for one in found] == ["user", "assistant", "user"]
    assert found[0].parts == (*memory.parts, place)
    assert found[2].parts == (Text(text="Which port?"),)
