import json
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kode.messages import Message, Part, Text, user_message
from kode.providers.chat_out import message_bytes
from kode.providers.encoding import CONTEXT_REPLY, FEW, Encoded, Joined, split_context_message

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


@given(STEPS)
def test_joining_step_by_step_equals_joining_afresh(steps: list[str]) -> None:
    joined = Joined(message_bytes)

    def check(messages: list[Message]) -> None:
        assert joined.of(messages) == Joined(message_bytes).of(tuple(messages))

    walk(steps, check)


def test_user_messages_in_a_row_become_one() -> None:
    answer = Message(role="assistant", parts=(Text(text="yes"),), stop="end")
    silent = Message(role="assistant", parts=(), stop="end")
    messages = [user_message("a"), user_message("b"), answer, user_message("c"), silent]

    wire = json.loads(b"[" + Joined(message_bytes).of([*messages, user_message("d")]) + b"]")

    assert [(m["role"], m["content"]) for m in wire] == [
        ("user", "a\n\nb"),
        ("assistant", "yes"),
        ("user", "c\n\nd"),
    ]


def test_memory_before_the_first_message_stays_a_message() -> None:
    index = Message(role="user", parts=(Text(text="Available memory: ...", source="memory"),))
    recalled = (Text(text="an episode", source="memory"), Text(text="a"))

    wire = json.loads(
        b"["
        + Joined(message_bytes).of([index, Message(role="user", parts=recalled), user_message("b")])
        + b"]"
    )

    assert [m["content"] for m in wire] == ["Available memory: ...", "an episode\n\na\n\nb"]


def test_joined_bytes_begin_the_next_request() -> None:
    answer = Message(role="assistant", parts=(Text(text="yes"),), stop="end")
    joined, messages = Joined(message_bytes), [user_message("a"), user_message("b")]
    before = joined.of(messages)
    for number in range(2 * FEW):
        messages += [answer, user_message(f"message {number}")]
        now = joined.of(messages)
        assert now.startswith(before)
        before = now


@given(STEPS)
def test_encoding_step_by_step_equals_encoding_afresh(steps: list[str]) -> None:
    known = Encoded(message_bytes)
    walk(steps, lambda messages: _same(known.of(messages), list(map(message_bytes, messages))))


def _same(a: object, b: object) -> None:
    assert a == b


def test_a_message_is_encoded_once_while_its_list_grows() -> None:
    seen: list[Message] = []

    def encode(message: Message) -> bytes:
        seen.append(message)
        return message_bytes(message)

    messages = [Message(role="assistant", parts=(Text(text=str(n)),)) for n in range(FEW)]
    for known in (Joined(encode), Encoded(encode)):
        known.of(messages)
        seen.clear()
        for number in range(5):
            known.of([user_message("a question beside")])
            messages.append(Message(role="assistant", parts=(Text(text=f"more {number}"),)))
            known.of(messages)
        assert seen.count(messages[0]) == 0
        assert len(seen) == 10


CONVERSATIONS = st.lists(
    st.builds(
        lambda role, sources: Message(
            role=role,
            parts=tuple(Text(text=f"{source} {n}", source=source) for n, source in sources),
        ),
        st.sampled_from(["user", "assistant"]),
        st.lists(st.tuples(st.integers(), st.sampled_from(["", "opening", "memory", "note"]))),
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


def test_words_of_the_person_stand_alone_behind_context() -> None:
    place: Part = Text(text="# Where you are", source="opening")
    memory = Message(role="user", parts=(Text(text="facts", source="memory"),))
    question = Message(role="user", parts=(place, Text(text="Which port?")))

    found = split_context_message([memory, question])

    assert [one.role for one in found] == ["user", "assistant", "user"]
    assert found[0].parts == (*memory.parts, place)
    assert found[2].parts == (Text(text="Which port?"),)
