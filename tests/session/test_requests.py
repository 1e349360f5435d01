"""The digests of requests: what each stands for, and that it can be checked later."""

from pathlib import Path

from hypothesis import given, strategies as st

from kode.messages import Message, Text, ToolCall, ToolResult, user_message
from kode.session.messages import Chain
from tests.session.stories import reopened, results, story

KEY = "sk-proj-" + "Zx9Qw7Lm3Np5Rt8Vb2Kd" * 2
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
    other = chain.of([*messages[:cut], user_message(said[cut] + "!"), *messages[cut + 1 :]])
    assert other[:cut] == whole[:cut]
    assert not set(other[cut:]) & set(whole[cut:])


def test_a_digest_can_be_checked_against_a_masked_file(tmp_path: Path) -> None:
    call = ToolCall(id="c1", name="shell", arguments=f'{{"command":"export API_KEY={KEY}"}}')
    session = story(
        tmp_path,
        f"user my key is {KEY}",
        Message(role="assistant", parts=(Text(text="ok"), call)),
        Message(role="tool", parts=(ToolResult(call_id="c1", name="shell", text=KEY),)),
    )

    again, _ = reopened(tmp_path, session.id)

    assert KEY not in (tmp_path / "sessions" / f"{session.id}.jsonl").read_text()
    assert Chain().of(again.messages) == Chain().of(session.messages)


def test_the_digest_of_a_result_knows_the_call() -> None:
    assert Chain().of([results("a")]) != Chain().of([results("b")])
