"""The digests of requests: what each stands for, and that it can be checked later."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kode.messages import Message, Text, ToolCall, ToolResult, user_message
from kode.session import log
from kode.session.requests import Chain

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


def test_a_digest_can_be_checked_against_a_masked_file(
    tmp_path: Path,
) -> None:
    session = log.create(tmp_path, cwd=tmp_path, model="m", provider="scripted")
    session.append_message(user_message(f"my key is {KEY}"))
    call = ToolCall(id="c1", name="shell", arguments=f'{{"command":"export API_KEY={KEY}"}}')
    session.append_message(Message(role="assistant", parts=(Text(text="ok"), call)))
    result = ToolResult(call_id="c1", name="shell", text=KEY)
    session.append_message(Message(role="tool", parts=(result,)))
    digests = Chain().of(session.messages)
    session.close()

    again, _ = log.load(tmp_path, session.header.id)
    again.close()

    assert KEY not in (tmp_path / "sessions" / f"{session.header.id}.jsonl").read_text()
    assert Chain().of(again.messages) == digests


def test_the_digest_of_a_result_knows_the_call() -> None:
    one, other = (
        Message(role="tool", parts=(ToolResult(call_id=id, name="shell", text="done"),))
        for id in ("a", "b")
    )
    assert Chain().of([one]) != Chain().of([other])
