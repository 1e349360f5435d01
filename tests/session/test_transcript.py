from pathlib import Path

from kode.messages import Image, Message, Text, ToolResult, user_message
from kode.session.entries import (
    AnyEntry,
    CompactionEntry,
    Header,
    MessageEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
)
from kode.session.transcript import Transcript
from tests.session.stories import answer, asks, results, whole_story

HEADER = Header(id="20260102-030405-a1b2c3", created_at="", cwd="/w", model="m", provider="openai")


def entry_of(message: Message) -> MessageEntry:
    fields = {name: getattr(message, name) for name in ("role", "parts", "stop", "usage", "model")}
    return MessageEntry(**fields)


def transcript_of(*entries: AnyEntry | Message) -> Transcript:
    stored = [entry_of(one) if type(one) is Message else one for one in entries]
    return Transcript(header=HEADER, entries=stored)


def results_in(transcript: Transcript) -> list[dict[str, str | None]]:
    """Each reply's calls with the text that came back."""
    return [
        {made.call.id: made.result.text if made.result else None for made in item.calls}
        for item in transcript.items
        if item.calls
    ]


def test_a_call_has_its_result_however_late_it_came() -> None:
    transcript = transcript_of(
        user_message("look"),
        asks("a", "b"),
        results("b", text="second"),
        Message(role="user", parts=(Text(text="hurry", source="steering"),)),
        results("a", text="first"),
        results("nobody's"),
    )

    assert results_in(transcript) == [{"a": "first", "b": "second"}]
    assert len(list(transcript.items)) == 3
    assert len(transcript.turns[0].entries) == 6


def test_a_reused_call_id_belongs_to_the_message_before() -> None:
    transcript = transcript_of(
        asks("a"), results("a", text="one"), asks("a"), results("a", text="two"), asks("a")
    )

    assert results_in(transcript) == [{"a": "one"}, {"a": "two"}, {"a": None}]
    *_, last = (made for item in transcript.items for made in item.calls)
    assert last.answer.is_error


def test_pictures_come_with_the_first_result_of_their_message() -> None:
    picture = Image(
        name="a.png", media_type="image/png", width=2, height=1, size_bytes=9, kept_in="/x"
    )
    parts = (*results("a", "b").parts, picture)

    transcript = transcript_of(asks("a", "b"), Message(role="tool", parts=parts))

    assert [made.pictures for item in transcript.items for made in item.calls] == [(picture,), ()]


def test_a_rewound_turn_is_marked_and_its_number_used_again() -> None:
    wrong = entry_of(user_message("wrong"))
    transcript = transcript_of(
        user_message("one"),
        answer("1"),
        wrong,
        answer("2"),
        RewindEntry(to=wrong.id),
        user_message("right"),
    )

    turns = transcript.turns
    assert [(turn.number, turn.is_rewound) for turn in turns] == [(1, False), (2, True), (2, False)]
    assert [item.gone for item in turns[1].items] == ["rewound", "rewound", ""]
    assert len(list(transcript.messages)) == 3


def test_the_turns_of_an_undone_rewind_count_as_before() -> None:
    second = entry_of(user_message("two"))
    rewind = RewindEntry(to=second.id)
    transcript = transcript_of(
        user_message("one"), second, rewind, RestoreEntry(of=rewind.id), user_message("three")
    )

    numbers = [(turn.number, turn.is_rewound) for turn in transcript.turns]
    assert numbers == [(1, False), (2, False), (3, False)]


def test_a_result_rewound_without_its_call_is_left_out() -> None:
    result = entry_of(results("a", text="rewound"))

    transcript = transcript_of(asks("a"), result, RewindEntry(to=result.id), answer("so"))

    assert results_in(transcript) == [{"a": None}]


def test_an_undone_compaction_is_marked_with_its_system_prompt() -> None:
    compaction = CompactionEntry(summary="was")
    transcript = transcript_of(
        user_message("one"),
        compaction,
        SystemEntry(text="sys", after=compaction.id),
        RestoreEntry(of=compaction.id),
    )

    assert [item.gone for item in transcript.items] == ["", "undone", "undone", ""]


def test_items_before_the_kept_message_of_a_trim_are_marked() -> None:
    kept = entry_of(answer("kept"))
    transcript = transcript_of(
        user_message("one"), kept, TrimEntry(kept_from=kept.id), user_message("two")
    )
    assert [item.gone for item in transcript.items] == ["trimmed", "", "", ""]

    emptied = transcript_of(*transcript.entries, TrimEntry(kept_from=None))
    assert not list(emptied.messages)


def test_every_entry_but_results_is_an_item_once(tmp_path: Path) -> None:
    transcript = Transcript.read(whole_story(tmp_path).path)

    shown = [item.entry.id for item in transcript.items]
    answers = {
        entry.id
        for entry in transcript.entries
        if any(isinstance(part, ToolResult) for part in getattr(entry, "parts", ()))
    }
    assert shown == [entry.id for entry in transcript.entries if entry.id not in answers]
    assert [turn.number for turn in transcript.turns] == [0, 1, 2]
    assert [turn.end is not None for turn in transcript.turns] == [False, True, False]
