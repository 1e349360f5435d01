from hypothesis import given
from hypothesis import strategies as st

from kode.messages import Message, user_message
from kode.providers.openai_chat import message_bytes
from kode.providers.wire import Joined


def afresh(messages: list[Message]) -> bytes:
    return b",".join(wire for m in messages if (wire := message_bytes(m)))


STEPS = st.lists(st.sampled_from(["append", "silent", "replace", "shorten"]), max_size=30)


@given(STEPS)
def test_what_is_joined_is_always_what_joining_afresh_gives(steps: list[str]) -> None:
    joined = Joined(message_bytes)
    messages: list[Message] = []
    for number, step in enumerate(steps):
        match step:
            case "append":
                messages.append(user_message(f"message {number}"))
            case "silent":  # an answer without text has no wire form
                messages.append(Message(role="assistant", parts=()))
            case "replace":
                messages = [user_message("anew"), *messages[1:]]
            case _:
                messages = messages[: len(messages) // 2]
        assert joined.of(messages) == afresh(messages)
