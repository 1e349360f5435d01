from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kode.messages import Message, user_message
from kode.providers.openai_chat import message_bytes
from kode.providers.wire import FEW, Encoded, Joined

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
def test_what_is_joined_is_always_what_joining_afresh_gives(steps: list[str]) -> None:
    joined = Joined(message_bytes)

    def check(messages: list[Message]) -> None:
        afresh = b",".join(wire for m in messages if (wire := message_bytes(m)))
        assert joined.of(messages) == afresh

    walk(steps, check)


@given(STEPS)
def test_what_is_encoded_is_always_what_encoding_afresh_gives(steps: list[str]) -> None:
    known = Encoded(message_bytes)
    walk(steps, lambda messages: _same(known.of(messages), list(map(message_bytes, messages))))


def _same(a: object, b: object) -> None:
    assert a == b


def test_a_message_is_encoded_once_while_its_list_grows_also_with_others_asked_beside() -> None:
    seen: list[Message] = []

    def encode(message: Message) -> bytes:
        seen.append(message)
        return message_bytes(message)

    messages = [user_message(f"message {number}") for number in range(FEW)]
    for known in (Joined(encode), Encoded(encode)):
        known.of(messages)
        seen.clear()
        for number in range(5):
            known.of([user_message("a question beside")])
            messages.append(user_message(f"more {number}"))
            known.of(messages)
        assert seen.count(messages[0]) == 0
        assert len(seen) == 10
