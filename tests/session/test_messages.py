import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from hypothesis import given, strategies as st

from kode.messages import (
    Image,
    Message,
    Text,
    Thinking,
    calls_of,
    results_of,
    text_of,
    user_message,
)
from kode.session import log
from kode.session.entries import (
    CompactionEntry,
    Entry,
    Header,
    MessageEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
    UnboundEntry,
    encode_line,
    parse_line,
)
from kode.session.log import Session
from kode.session.messages import (
    UNKNOWN_RESULT,
    compaction_message,
    open_calls,
    visible_messages,
)
from tests.session.stories import answer, asks, assert_sendable, message_of, results, turn_entry
from tests.tables import for_each


def session(*steps: str) -> Session:
    session = log.create(None, Header(cwd="/w", model="m", provider="openai"))
    for step in steps:
        session.append_message(message_of(step))
    return session


def texts(messages: list[Message]) -> list[str]:
    return [text_of(message) for message in messages]


def test_a_compaction_is_one_message_before_those_that_stay() -> None:
    s = session("user one", "answer two")
    s.append_message(message_of("user three"))
    kept = s.entries[-1]

    lists = {"user_messages": ("one",), "files_read": ("a.py",), "files_changed": ("b.py",)}
    s.append(CompactionEntry(summary="did things", kept_from=kept.id, **lists))

    note, last = s.messages
    assert note.role == "user"
    assert note.parts[0].source == "compaction"
    for piece in ("did things", "one", "a.py", "b.py"):
        assert piece in note.parts[0].text
    assert last == kept
    assert texts(visible_messages(s.entries)) == ["one", "two", "three"]


def test_a_trimmed_conversation_begins_with_a_user_message() -> None:
    s = session("user one")
    s.append_message(message_of("answer two"))
    kept = s.entries[-1]

    s.append(TrimEntry(kept_from=kept.id))

    assert [message.role for message in s.messages] == ["user", "assistant"]
    assert texts(visible_messages(s.entries)) == ["two"]


def test_a_trim_beyond_a_compaction_changes_nothing() -> None:
    s = session("user one")
    s.append_message(message_of("user two"))
    early = s.entries[-1]
    s.append(CompactionEntry(summary="sum"))
    before = list(s.messages)

    s.append(TrimEntry(kept_from=early.id))

    assert s.messages == before


def test_a_rewind_holds_until_it_is_undone() -> None:
    s = session("user one", "answer two")
    s.append_message(message_of("user three"))
    back = s.entries[-1]
    s.append(CompactionEntry(summary="sum"))
    s.append_message(message_of("answer four"))
    paid = s.spent.usage
    rewind = RewindEntry(to=back.id)

    s.append(rewind)

    assert (texts(s.messages), s.turns, s.spent.usage) == (["one", "two"], 1, paid)

    s.append(RestoreEntry(of=rewind.id))

    assert (texts(s.messages)[1:], s.turns) == (["four"], 2)
    assert loaded_again(s).messages == s.messages
    s.append(RewindEntry(to=back.id))
    assert texts(s.messages) == ["one", "two"]


PICTURE = Image(name="shot", media_type="image/png", width=1, height=1, size_bytes=1, kept_in="/i")


@for_each("order", list(itertools.permutations("abc")))
def test_separate_results_become_one_message_in_order(
    order: tuple[str, ...],
) -> None:
    s = session("user go", "asks a b c")
    seen = []
    for call_id in order:
        result = results(call_id, text=call_id)
        pictures = (PICTURE,) if call_id == "a" else ()
        s.append_message(replace(result, parts=(*result.parts, *pictures)))
        last = s.entries[-1]
        seen.append(len(s.messages))

    assert seen == [2, 2, 3]
    joined = s.messages[-1]
    assert joined.parts[-1] == PICTURE
    assert [(r.call_id, r.text) for r in results_of(joined)] == [("a", "a"), ("b", "b"), ("c", "c")]
    assert joined.id == last.id
    assert visible_messages(s.entries) == loaded_again(s).messages == s.messages


@for_each(
    ("steps", "output"),
    [
        (
            "user go, asks a b, results b, asks c, user and?",
            [UNKNOWN_RESULT, "done", UNKNOWN_RESULT],
        ),
        ("user go, asks a b c, results b, user and?", [UNKNOWN_RESULT, "done", UNKNOWN_RESULT]),
        ("results zzz, asks a, results a, results a, results other", ["done"]),
    ],
)
def test_each_call_has_one_result_before_the_next_message(steps: str, output: list[str]) -> None:
    s = session(*steps.split(", "))

    assert_sendable(s.messages)
    assert [result.text for message in s.messages for result in results_of(message)] == output


def entry_at(s: Session, choice: int, kind: type = object) -> str:
    """The id of an entry of this kind, if there is any."""
    ids = [entry.id for entry in s.entries if isinstance(entry, kind)]
    return ids[choice % len(ids)] if ids else "none"


def answer_some(s: Session, choice: int) -> None:
    """Results for calls of the last message, and some for calls that nobody made."""
    asked = [call.id for message in s.messages[-1:] for call in calls_of(message)]
    s.append_message(results(*asked[choice % 2 :], *["stray"] * (choice % 3)))


def answer_one(s: Session, choice: int) -> None:
    ids = [call.id for call in open_calls(s.messages, s.answers)] or ["stray"]
    s.append_message(results(ids[choice % len(ids)], text=f"r{choice}"))


def ask(s: Session, choice: int) -> None:
    s.append_message(asks(*(f"c{len(s.entries)}.{i}" for i in range(1 + choice % 3))))


def kept_from(s: Session, choice: int) -> str | None:
    return entry_at(s, choice, MessageEntry) if choice % 4 else None


STEPS: list[Callable[[Session, int], object]] = [
    lambda s, n: s.append_message(user_message(f"u{len(s.entries)}")),
    lambda s, n: s.append_message(answer(f"a{len(s.entries)}")),
    ask,
    answer_some,
    answer_one,
    lambda s, n: s.append(CompactionEntry(summary="s", kept_from=kept_from(s, n))),
    lambda s, n: s.append(TrimEntry(kept_from=kept_from(s, n))),
    lambda s, n: s.append(RewindEntry(to=entry_at(s, n))),
    lambda s, n: s.append(RestoreEntry(of=entry_at(s, n))),
    lambda s, n: s.append(SystemEntry(sections={"kode": f"prompt {n % 2}"}, after=entry_at(s, n))),
    lambda s, n: s.append(UnboundEntry()),
    lambda s, n: s.append(turn_entry(1, s)),
]


def loaded_again(session: Session) -> Session:
    """The session as another process has it, from its lines."""
    again = Session(header=session.header, path=None)
    for entry in session.entries:
        again.append(cast(Entry, parse_line(encode_line(entry))))
    return again


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 30)), max_size=25))
def test_stepwise_messages_equal_the_loaded_ones_and_can_be_sent(
    steps: list[tuple[Callable[[Session, int], object], int]],
) -> None:
    s = session()
    for step, choice in steps:
        listed, before = s.messages, list(s.messages)

        step(s, choice)

        assert loaded_again(s).messages == s.messages
        if s.messages is listed:  # what was told is told again, the same in the same place
            assert all(a is b for a, b in zip(before, s.messages, strict=False))
    s.append_message(message_of("user end"))
    assert_sendable(s.messages)


def thought(text: str) -> Message:
    parts = (Thinking(text="hm", signature="s"), Text(text=text))
    return Message(role="assistant", parts=parts, stop="end", origin="messages:anthropic/m")


def moved(session: Session) -> list[bool]:
    return [m.moved for m in session.messages if m.role == "assistant"]


def test_thinking_behind_a_masked_credential_moves_in_later_processes() -> None:
    s = session()
    s.append(SystemEntry(sections={"kode": "prompt"}))
    s.append_message(message_of("user hello"))
    s.append_message(thought("before it"))
    s.append_message(user_message("the key is sk-proj-" + "Zx9Qw7Lm3Np5Rt8Vb2Kd" * 2))
    s.append_message(thought("behind it"))
    later = loaded_again(s)
    later.append_message(user_message("go on"))
    later.append_message(thought("in a later process"))

    assert moved(s) == [False, False]
    assert moved(later) == [False, True, False]
    assert moved(loaded_again(later)) == [False, True, False]


def test_thinking_moves_with_another_beginning_and_comes_back() -> None:
    s = session()
    s.append(SystemEntry(sections={"kode": "first"}))
    s.append_message(message_of("user one"))
    s.append_message(thought("two"))
    s.append(compaction := CompactionEntry(summary="s", kept_from=s.messages[0].id))
    s.append(SystemEntry(sections={"kode": "second"}, after=compaction.id))
    assert moved(s) == [True]

    s.append(RestoreEntry(of=compaction.id))

    assert s.system == "first"
    assert moved(s) == [False]


def test_instructions_that_outlast_a_compaction_are_the_newest_without_gaps() -> None:
    entry = CompactionEntry(summary="s", kept_from=None, tokens_before=100)

    message = compaction_message(entry, ["old", "x" * 90, "newest instructions"])

    texts = [one.text for one in message.parts if getattr(one, "source", "") == "instructions"]
    assert texts == ["newest instructions"]
