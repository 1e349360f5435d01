from dataclasses import replace
from pathlib import Path

from kode.messages import Image, Message, Text, ToolResult
from kode.session.entries import (
    CompactionEntry,
    Entry,
    Header,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TrimEntry,
)
from kode.session.transcript import Transcript
from tests.session.stories import entry_of, results, whole_story
from tests.tables import for_each

HEADER = Header(id="20260102-030405-a1b2c3", created_at="", cwd="/w", model="m", provider="openai")


def transcript_of(*steps: str | Message | Entry) -> Transcript:
    """A session of these steps, see `message_of`, whose ids are their numbers."""
    entries = [replace(entry_of(step), id=str(number)) for number, step in enumerate(steps)]
    return Transcript(header=HEADER, entries=entries)


@for_each(
    ("steps", "output"),
    [
        (
            (
                "user look",
                "asks a b",
                results("b", text="second"),
                Message(role="user", parts=(Text(text="hurry", source="steering"),)),
                results("a", text="first"),
                "results nobody's",
            ),
            [{"a": "first", "b": "second"}],
        ),
        (
            ("asks a", results("a", text="one"), "asks a", results("a", text="two"), "asks a"),
            [{"a": "one"}, {"a": "two"}, {"a": None}],
        ),
    ],
)
def test_a_call_has_its_own_result_however_late(
    steps: tuple[str | Message | Entry, ...], output: list[dict[str, str | None]]
) -> None:
    replies = [item.calls for item in transcript_of(*steps).items if item.calls]

    assert output == [
        {call.call.id: call.result.text if call.result else None for call in calls}
        for calls in replies
    ]
    assert [[call.answer.is_error for call in calls] for calls in replies] == [
        [text is None for text in reply.values()] for reply in output
    ]


def test_pictures_come_with_the_first_result_of_their_message() -> None:
    picture = Image(
        name="a.png", media_type="image/png", width=2, height=1, size_bytes=9, kept_in="/x"
    )
    parts = (*results("a", "b").parts, picture)

    transcript = transcript_of("asks a b", Message(role="tool", parts=parts))

    assert [call.pictures for item in transcript.items for call in item.calls] == [(picture,), ()]


def test_a_rewound_turn_is_marked_and_its_number_used_again() -> None:
    transcript = transcript_of(
        "user one", "answer 1", "user wrong", "answer 2", RewindEntry(to="2"), "user right"
    )

    turns = transcript.turns
    assert [(turn.number, turn.is_rewound) for turn in turns] == [(1, False), (2, True), (2, False)]
    assert [item.is_rewound for item in turns[1].items] == [True, True, False]
    assert len(list(transcript.messages)) == 3


def test_the_turns_of_an_undone_rewind_count_as_before() -> None:
    transcript = transcript_of(
        "user one", "user two", RewindEntry(to="1"), RestoreEntry(of="2"), "user three"
    )

    numbers = [(turn.number, turn.is_rewound) for turn in transcript.turns]
    assert numbers == [(1, False), (2, False), (3, False)]


def test_an_undone_compaction_is_marked_with_its_system_prompt() -> None:
    undone = (
        CompactionEntry(summary="was"),
        SystemEntry(sections={"kode": "s"}, after="1"),
        RestoreEntry(of="1"),
    )
    items = transcript_of("user one", *undone).items
    assert [item.is_rewound for item in items] == [False, True, True, False]


@for_each(("kept_from", "ids"), [("2", ["2", "4"]), (None, ["4"])])
def test_trimmed_messages_do_not_count(kept_from: str | None, ids: list[str]) -> None:
    trim = TrimEntry(kept_from=kept_from)
    transcript = transcript_of("user one", "answer gone", "answer stays", trim, "user two")
    assert [message.id for message, _ in transcript.messages] == ids


def test_every_entry_but_results_is_an_item_once(tmp_path: Path) -> None:
    transcript = Transcript.read(whole_story(tmp_path).path)

    answers = {
        entry.id
        for entry in transcript.entries
        if any(isinstance(part, ToolResult) for part in getattr(entry, "parts", ()))
    }
    ids = [entry.id for entry in transcript.entries if entry.id not in answers]
    assert [item.entry.id for item in transcript.items] == ids
    assert [turn.number for turn in transcript.turns] == [0, 1, 2]
    assert [turn.end is not None for turn in transcript.turns] == [False, True, False]
