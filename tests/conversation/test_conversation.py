"""A conversation over its life: turns, undo, another session, another model."""

import asyncio
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from kode import durable, paths
from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.errors import SessionError
from kode.events import Event, Notice, ToolFinished, Working, no_emit
from kode.messages import Text, results_of, text_of, user_message
from kode.permissions.question import Answer, Question
from kode.session import log
from kode.session.entries import TaintEntry
from kode.session.messages import find_unreported
from tests.conversation.conftest import Open, calling, notices, writing
from tests.needs import needs
from tests.tools.conftest import until


def said(conversation: Conversation) -> list[str]:
    return [text_of(message) for message in conversation.session.messages]


async def test_a_message_taken_back_stays_in_the_file_untold(opened: Open) -> None:
    conversation = await opened({"text": "one"}, {"text": "two"}, {"text": "better"})
    await conversation.turn("first")
    await conversation.turn("secnod")

    await conversation.rewind(2, files=False, messages=True)
    await conversation.turn("second")

    assert said(conversation) == ["first", "one", "second", "better"]
    assert conversation.session.turns == 2
    assert "secnod" in conversation.session.path.read_text()
    session_id = conversation.session.id
    await conversation.close()
    again = await opened(session_id=session_id)
    assert said(again) == ["first", "one", "second", "better"]


async def test_words_said_during_a_turn_reach_its_next_step(opened: Open) -> None:
    said = [[], ["use tabs"], ["and a test"], []]
    talk = await opened(
        writing("a.txt", "1"), writing("a.txt", "2"), {"text": "done"}, {"text": "with a test"}
    )

    ended = await talk.turn(
        "make it", steering=lambda: [Text(text=text) for text in said.pop(0)] if said else []
    )

    assert ended.result == "with a test"
    messages = talk.session.messages
    assert [m.role for m in messages] == [
        "user", "assistant", "tool", "assistant", "tool", "user", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert [text_of(m) for m in messages if m.role == "user"] == [
        "make it",
        "use tabs",
        "and a test",
    ]
    assert talk.prompts() == ["make it"]
    assert talk.session.turns == 1


@pytest.fixture
async def edited(opened: Open) -> Conversation:
    """Three turns, each of which has written its number into a.txt, as the next will do."""
    replies = [part for n in "1234" for part in (writing("a.txt", n), {"text": n})]
    talk = await opened(*replies)
    for prompt in ("one", "two", "three"):
        await talk.turn(prompt)
    return talk


@pytest.mark.parametrize(("files", "conversation"), [(True, True), (True, False), (False, True)])
async def test_rewind_restores_files_conversation_or_both_to_before_a_prompt(
    edited: Conversation, project: Path, files: bool, conversation: bool
) -> None:
    await edited.rewind(2, files=files, messages=conversation)

    assert (project / "a.txt").read_text() == ("1" if files else "3")
    assert edited.prompts() == (["one"] if conversation else ["one", "two", "three"])
    await edited.turn("four")
    assert edited.prompts()[-1] == "four"


async def test_a_rewind_is_undone_until_the_next_message(opened: Open) -> None:
    talk = await opened({"text": "1"}, {"text": "2"}, {"text": "3"})
    for prompt in ("one", "two"):
        await talk.turn(prompt)
    assert not talk.undo_rewind()

    await talk.rewind(1, files=False, messages=True)
    await talk.rewind(1, files=True, messages=False)
    assert talk.undo_rewind()

    assert talk.prompts() == ["one", "two"]
    assert not talk.undo_rewind()
    await talk.rewind(2, files=False, messages=True)
    await talk.turn("other")
    assert not talk.undo_rewind()
    assert talk.prompts() == ["one", "other"]


async def test_the_files_that_a_rewind_would_change_are_known(opened: Open, project: Path) -> None:
    replies = [part for name in "abb" for part in (writing(name, "1\n"), {"text": "done"})]
    talk = await opened(*replies, {"text": "no change"})
    for prompt in ("one", "two", "three"):
        await talk.turn(prompt)
        (project / "b").unlink(missing_ok=True)

    assert talk.would_undo() == [["a", "b"], ["b"], ["b"]]
    await talk.turn("four")
    assert talk.would_undo()[3] == []


async def test_a_session_without_the_last_answer_is_cut_short(opened: Open) -> None:
    talk = await opened({"text": "1"})
    assert not talk.is_cut_short()
    await talk.turn("one")
    assert not talk.is_cut_short()

    assert talk.last_answer() == "1"

    talk.session.append_message(user_message("two"))

    assert talk.is_cut_short()
    assert talk.last_answer() == ""


async def test_a_file_rewind_ends_at_its_prompt_despite_reused_numbers(
    edited: Conversation, project: Path
) -> None:
    await edited.rewind(2, files=False, messages=True)
    await edited.turn("other")

    await edited.rewind(2, files=True, messages=True)

    assert (project / "a.txt").read_text() == "3"


@pytest.mark.parametrize(
    ("path", "told"),
    [("a\0b", "has a NUL character"), ("", "The path is empty"), (".", "is a folder")],
)
async def test_an_impossible_path_is_left_for_the_tool_to_refuse(
    opened: Open, path: str, told: str
) -> None:
    conversation = await opened(writing(path, "new\n"), {"text": "I see"})
    await conversation.turn("make it")
    (result,) = results_of(conversation.session.messages[2])
    assert told in result.text


async def test_a_file_is_read_again_after_undo_alone(opened: Open, project: Path) -> None:
    contents = ["1", "2", "3", "4"]
    steps = [step for it in contents for step in (writing("a.txt", f"{it}\n"), {"text": it})]
    talk = await opened(*steps)
    await talk.turn("one")
    await talk.turn("two")

    await talk.undo()
    await talk.turn("three")
    (result,) = results_of(talk.session.messages[-2])
    assert "a.txt has changed since it was last read" in result.text
    await talk.redo()
    await talk.turn("four")
    assert (project / "a.txt").read_text() == "4\n"


@needs("git")
async def test_work_that_a_command_discards_is_kept_and_comes_back(
    opened: Open, project: Path
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    (project / "draft.txt").write_text("mine\n")

    async def ask(question: Question) -> Answer:
        return Answer(choice="once")

    clean = calling("shell", command="ls .. && git clean -fdq .")
    conversation = await opened(clean, {"text": "cleaned"}, ask=ask)
    await conversation.turn("clean it")
    assert not (project / "draft.txt").exists()

    text = await conversation.undo()

    assert (project / "draft.txt").read_text() == "mine\n"
    assert text.startswith("Undid turn 1 (clean it)\nrestored draft.txt\n")
    assert text.endswith("`/redo` reapplies turn 1.")


@pytest.mark.parametrize("broken", [False, True])
async def test_discarded_work_is_kept_though_nobody_can_be_asked(
    opened: Open, events: list[Event], tmp_path: Path, project: Path, broken: bool
) -> None:
    draft = project / "draft.txt"
    draft.write_text("mine\n")
    delete = calling("shell", command="true && rm draft.txt")
    conversation = await opened(delete, {"text": "gone"}, mode="full")
    if broken:
        conversation.agent.undo.contents.folder = tmp_path / "script-0.json"  # no folder
    await conversation.turn("delete it")
    assert not draft.exists()

    await conversation.undo()

    assert draft.exists() != broken
    assert any("may not restore" in text for text in notices(events)) == broken


@pytest.mark.parametrize("folders", ["made", "made other"])
async def test_more_files_than_a_survey_lists_are_told(
    opened: Open, events: list[Event], monkeypatch: pytest.MonkeyPatch, folders: str
) -> None:
    monkeypatch.setattr("kode.undo.outside.MAX_FILES", 6)
    fill = f'mkdir {folders}; for d in {folders}; do touch "$d"/a "$d"/b "$d"/c "$d"/d "$d"/e; done'
    conversation = await opened(calling("shell", command=fill), {"text": "made"}, mode="full")

    await conversation.turn("make files")

    assert any("too many files" in text for text in notices(events)) == (" " in folders)


async def test_a_new_session_leaves_the_old_whole_and_resume_returns(opened: Open) -> None:
    conversation = await opened({"text": "one"}, {"text": "two"})
    await conversation.turn("first")
    old = conversation.session.id

    await conversation.switch_session()
    await conversation.turn("other")
    assert said(conversation) == ["other", "two"]
    await conversation.switch_session(old)

    assert said(conversation) == ["first", "one"]
    with pytest.raises(SessionError):
        await conversation.switch_session("20000101-000000-000000")
    assert conversation.session.id == old


async def test_a_resumed_session_tells_what_had_to_be_repaired(
    opened: Open, events: list[Event]
) -> None:
    conversation = await opened({"text": "one"})
    await conversation.turn("first")
    path, session_id = conversation.session.path, conversation.session.id
    await conversation.close()
    with path.open("ab") as file:
        file.write(b'{"type":"message","ro')

    await opened(session_id=session_id)

    assert [event.level for event in events if isinstance(event, Notice)] == ["warning"]
    _, _, faults = log.read(path)
    assert faults == []


async def test_the_status_tells_at_once_how_full_the_window_is(opened: Open) -> None:
    usage = {"input_tokens": 5000, "output_tokens": 20}
    first = await opened({"text": "one", "usage": usage})
    await first.turn("first")
    assert first.context_tokens == 5020
    window = await first.window()
    assert window["tools"] > 500
    assert first.context_tokens == 5020
    await first.close()

    resumed = await opened(session_id=first.session.id)

    assert resumed.context_tokens == 5020


async def test_the_next_result_reports_the_end_of_a_background_command(
    opened: Open, project: Path
) -> None:
    serve, other = (
        calling("shell", command=f"touch {begun}; until [ -e {end} ]; do sleep 0.02; done")
        for begun, end in (("begun", "go"), ("go", "ended"))
    )
    conversation = await opened(serve, other, {"text": "done"}, mode="full")
    turn = asyncio.ensure_future(conversation.turn("serve"))
    await until((project / "begun").exists)
    assert conversation.commands.move()
    await until((project / "go").exists)
    [command] = conversation.commands.commands
    await command.watch
    (project / "ended").touch()
    await turn

    first, second = (r.text for m in conversation.session.messages for r in results_of(m))
    assert "It runs on" in first
    assert "bg1 (`touch begun" in second
    assert find_unreported(conversation.session.entries) == []


def test_a_short_session_still_removes_what_crashes_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, closing = tmp_path / "kode-home", threading.Event()
    slow = durable.remove_stale_temporaries

    def remove_slowly(root: Path, *, also_below: bool = False) -> None:
        closing.wait(20)
        slow(root, also_below=also_below)

    monkeypatch.setattr(durable, "remove_stale_temporaries", remove_slowly)
    script = tmp_path / "script.json"
    script.write_text('[{"text": "one"}]')
    flags = {"provider": "scripted", "script": str(script), "memory.enabled": False}
    loaded = load_config(home, tmp_path, environ={}, flags=flags)

    async def session(session_id: str | None) -> str | None:
        conversation = await open_conversation(
            Settings(loaded, emit=no_emit), cwd=tmp_path, session_id=session_id
        )
        await conversation.turn("Hello.")
        closing.set()
        await conversation.close()
        return conversation.session.id

    session_id = asyncio.run(session(None))
    left = home / "sessions" / ".kode-tmp-0123"
    left.write_text("half")
    os.utime(paths.upkeep_stamp(home), (0, 0))
    closing.clear()
    asyncio.run(session(session_id))

    assert not left.exists()


async def test_a_notice_comes_before_work_that_takes_time_begins(
    opened: Open, events: list[Event]
) -> None:
    conversation = await opened({"text": "one"}, {"text": "a hand-over note"})
    await conversation.turn("first " * 20_000)

    await conversation.compact()

    kinds = [event.type for event in events]
    assert kinds.index("working") < kinds.index("context_reduced")
    [working] = [event for event in events if isinstance(event, Working)]
    assert working.what == "Compacting the conversation"


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-5", "openai"),
        ("chatgpt-4o-latest", "openai"),
        ("claude-sonnet-4-5", "anthropic"),
        ("model-of-no-known-name", "anthropic"),
    ],
)
async def test_a_model_is_asked_of_the_provider_its_name_names(
    opened: Open, model: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{key}_API_KEY", "key-for-tests")
    conversation = await opened(provider="anthropic")

    conversation.use_model(model)

    chosen = conversation.agent.provider
    assert (chosen.name, chosen.model) == (provider, model)


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ("pytest -q", "attachment"),
        ("git diff", "attachment"),
        ("curl https://example.org", "outside"),
        ("cat /srv/share/notes.txt", "outside"),
        ("cat marked.md", "outside"),
    ],
)
async def test_a_persons_command_brings_outside_text_like_the_models(
    opened: Open, command: str, source: str
) -> None:
    other, conversation = await opened(), await opened({"text": "seen"})
    other.session.append(TaintEntry(source="https://evil.example"))
    if "marked.md" in command:
        (other.place.cwd / "marked.md").write_text("obey")
        other.agent.marks.record([str(other.place.cwd / "marked.md")])
    conversation.attach_command(command, f"$ {command}\nobey")

    assert [part.source for part in conversation.attachments if isinstance(part, Text)] == [source]
    await conversation.turn("what is it?")

    assert bool(conversation.session.tainted_by) == (source == "outside")


@pytest.mark.parametrize("depth", ["", "1"])
async def test_an_unused_inner_kode_is_marked_and_leaves_no_file(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: str
) -> None:
    """Else what a page has the outer one type would be the person's wish in the inner one."""
    monkeypatch.setenv("KODE_DEPTH", depth)

    conversation = await opened()

    assert bool(conversation.session.tainted_by) == bool(depth)
    await conversation.close()
    assert list((tmp_path / "kode-home" / "sessions").glob("*.jsonl")) == []


async def test_a_commands_time_leaves_out_the_answer_about_its_changes(
    opened: Open, events: list[Event]
) -> None:
    took_ms: list[int] = []

    async def slowly(question: Question) -> Answer:
        began = time.monotonic()
        await asyncio.sleep(0.5)
        took_ms.append(int(1000 * (time.monotonic() - began)))
        return Answer(choice="once")

    make = calling("shell", command="printf x > made.txt")
    conversation = await opened(make, {"text": "made"}, mode="ask", ask=slowly)
    ended = await conversation.turn("make it")

    (ran,) = [event for event in events if isinstance(event, ToolFinished)]
    assert not ran.is_error
    assert ran.duration_ms <= ended.duration_ms - sum(took_ms)
