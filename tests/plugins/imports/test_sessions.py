"""Sessions of other agents become sessions of kode's own: listed, searched, shown, continued."""

import itertools
import json
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kode import paths
from kode.cli.commands import session
from kode.errors import SessionError
from kode.messages import Thinking, calls_of, results_of, text_of
from kode.session import log, upkeep
from kode.session.entries import CompactionEntry
from kode.session.index import list_sessions, read, search_sessions, session_path
from kode.session.messages import UNKNOWN_RESULT
from kode.session.upkeep import find_imported, import_file as take_known, session_files
from tests.cli.commands.answers import run
from tests.effort import share

DATA = Path(__file__).parent / "data"
CLAUDE, CODEX = DATA / "claude_code.jsonl", DATA / "codex.jsonl"


def take(home, file):
    return take_known(home, file, find_imported(home))


def loaded(home, file):
    """The session made of a file, which counts as text from outside."""
    session, _ = log.load(home, take(home, file)[0])
    session.close()
    origin = session.header.imported_from
    assert origin is not None
    assert origin.agent in session.tainted_by
    return session


def outline(session):
    """What the model would get, a line a message."""
    lines = []
    for message in session.messages:
        calls = [f"{call.name} {call.arguments}" for call in calls_of(message)]
        results = [f"{one.name}: {one.text[:20]}" for one in results_of(message)]
        lines.append(" | ".join(filter(None, (message.role, text_of(message), *calls, *results))))
    return lines


def test_a_claude_code_session_follows_from_its_last_message(tmp_path):
    session = loaded(tmp_path, CLAUDE)

    assert outline(session) == [
        "user",
        "user | why does the cart lose items?",
        "assistant | I look at both files."
        ' | Read {"file_path": "cart.py"} | Bash {"command": "pytest -q"}',
        "tool | Read: class Cart: ... | Bash: 1 failed",
        "assistant | The cart is shared between requests.",
        "user | fix it",
        'assistant | mcp__db__query {"sql": "select 1"}',
        f"tool | mcp__db__query: {UNKNOWN_RESULT[:20]}",
    ]
    assert (session.turns, session.header.cwd) == (2, "/home/ann/shop")
    assert [one.is_error for one in results_of(session.messages[3])] == [False, True]
    (thinking,) = [p for m in session.messages for p in m.parts if isinstance(p, Thinking)]
    assert (thinking.text, thinking.signature) == ("look at the store", "")
    assert not any("subagent" in line for line in outline(session))


def test_a_session_of_codex(tmp_path):
    session = loaded(tmp_path, CODEX)

    entries = session.entries
    said = [text_of(one) for one in entries if getattr(one, "role", "") in ("user", "assistant")]
    assert [*filter(None, said)] == [
        "list the tests", "There is one test.", "and now run it", "It passes.",
    ]  # fmt: skip
    (summary,) = [one for one in entries if isinstance(one, CompactionEntry)]
    assert summary.summary == "The person wanted a list of tests."
    assert outline(session)[1:] == ["user | and now run it", "assistant | It passes."]
    calls = [
        call for one in entries if getattr(one, "role", "") == "assistant" for call in calls_of(one)
    ]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("exec_command", {"cmd": "ls tests"}),
        ("exec_command", {"input": "not json"}),
        ("apply_patch", {"input": "*** Begin Patch"}),
    ]
    assert session.header.cwd == "/home/ann/shop"


def test_it_is_listed_at_the_time_it_was_used(tmp_path):
    for file in (CLAUDE, CODEX):
        take(tmp_path, file)
    newest, oldest = list_sessions(tmp_path)
    assert (newest.task, oldest.task) == ("list the tests", "why does the cart lose items?")
    assert (newest.turns, newest.model, newest.updated_at[:10]) == (2, "gpt-x-codex", "2026-04-02")
    assert oldest.id.startswith("20260301-1000")


def claude_line(kind, uuid, parent, text, **more):
    message = {"role": kind, "content": text}
    ids = {"uuid": uuid, "parentUuid": parent, "sessionId": "s"}
    return {"type": kind, **ids, "message": message, **more}


def session_with(tmp_path, *lines):
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return loaded(tmp_path / "home", file)


def test_a_compaction_of_claude_code_is_one_of_kode_s(tmp_path):
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    session = session_with(
        tmp_path,
        claude_line("user", "u1", None, "first"),
        claude_line("assistant", "a1", "u1", "done"),
        {**boundary, "logicalParentUuid": "a1"},
        claude_line("user", "c", "b", "It was about the first.", isCompactSummary=True),
        claude_line("user", "u2", "c", "second"),
        claude_line("assistant", "a2", "u2", "done again"),
    )
    assert session.turns == 2
    assert "It was about the first." in str(session.messages[0].parts)
    assert outline(session)[1:] == ["user | second", "assistant | done again"]


def test_words_during_claude_codes_work_make_no_turn(tmp_path):
    queued = {"type": "queued_command", "commandMode": "prompt", "prompt": "use tabs"}
    session = session_with(
        tmp_path,
        {"type": "attachment", "attachment": {"type": "skill_listing"}, "uuid": "x"},
        claude_line("user", "u1", None, "make it"),
        claude_line("assistant", "a1", "u1", "I begin"),
        {"type": "attachment", "attachment": queued, "uuid": "q", "parentUuid": "a1"},
        claude_line("assistant", "a2", "q", "with tabs", timestamp="2026-05-01T10:00:00Z"),
    )
    said = ["user | make it", "assistant | I begin", "user | use tabs", "assistant | with tabs"]
    assert outline(session) == said
    assert session.turns == 1
    assert session.header.created_at == "2026-05-01T10:00:00Z"  # the only time that is known


def test_a_file_is_imported_once_and_again_when_longer(tmp_path):
    home, file = tmp_path / "home", tmp_path / "a.jsonl"
    file.write_bytes(CODEX.read_bytes())
    session_id, _ = take(home, file)
    assert take(home, file) == (session_id, None)
    with file.open("ab") as grown:
        grown.write(CODEX.read_bytes().splitlines(keepends=True)[-1])
    assert take(home, file)[1] is not None
    upkeep.delete_session(home, session_id)
    file.write_bytes(CODEX.read_bytes())
    assert take(home, file)[1] is not None


def test_a_file_that_is_no_session_is_refused(tmp_path):
    file = tmp_path / "a.jsonl"
    for text, why in (
        ("", "not a session"),
        ("[1, 2]\n", "not a session"),
        ('{"type":"session_meta","payload":{"id":"x"}}\n', "nothing was said"),
        ('{"type":"summary","summary":"x"}\n', "not a session"),
    ):
        file.write_text(text)
        with pytest.raises(SessionError, match=why):
            take(tmp_path / "home", file)
    with pytest.raises(SessionError, match="does not exist"):
        session_files(tmp_path / "nowhere")


def sendable(session):
    """Every call has its results right after it, and no result is without its call."""
    messages = session.messages
    for message, following in itertools.zip_longest(messages, messages[1:]):
        results = [one.call_id for one in results_of(following)] if following else []
        assert results == [call.id for call in calls_of(message)]
    assert not any(message.role == "tool" for message in messages[:1])
    calls = [call for message in messages for call in calls_of(message)]
    assert len({call.id for call in calls}) == len(calls)
    assert all(isinstance(json.loads(call.arguments), dict) for call in calls)


simple = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
values = simple | st.lists(simple | st.just({"a": [1]})) | st.dictionaries(st.text(), simple)
KEYS = st.sampled_from(
    "type uuid parentUuid message content payload role text id call_id tool_use_id input output "
    "name timestamp cwd model summary arguments isMeta isCompactSummary action".split()
)
NUMBERS = st.integers(0, 30)
NOISE = [b'{"type": "user", "message": {"content": [1, {"type": 3}]}}', b"\xff"]
BREAK: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "drop": lambda some: some[1:],
    "double": lambda some: [*some[:1], *some],
    "cut": lambda some: [*(line[: len(line) // 2] for line in some[:1]), *some[1:]],
    "swap": lambda some: some[::-1],
    "noise": lambda some: [*NOISE, *some],
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=share(80))
@given(
    file=st.sampled_from([CLAUDE, CODEX]),
    changes=st.lists(st.tuples(NUMBERS, KEYS, values), max_size=8),
    faults=st.lists(st.tuples(st.sampled_from([*BREAK]), NUMBERS), max_size=6),
)
def test_however_broken_what_is_left_can_be_continued(tmp_path, file, changes, faults):
    objects = [json.loads(line) for line in file.read_bytes().splitlines()]
    for number, key, value in changes:
        target = objects[number % len(objects)]
        for place in (target, target.get("payload"), target.get("message")):
            if isinstance(place, dict) and key in place:
                place[key] = value
    lines = [json.dumps(value).encode() for value in objects]
    for kind, number in faults:
        at = number % len(lines) if lines else 0
        lines[at : at + 2] = BREAK[kind](lines[at : at + 2])
    home = Path(tempfile.mkdtemp(dir=tmp_path))
    (home / "a.jsonl").write_bytes(b"\n".join(lines))
    try:
        session = loaded(home, home / "a.jsonl")
    except SessionError:
        return
    sendable(session)
    assert read(session_path(home, str(session.id)))[2] == []
    assert len(list_sessions(home)) == 1
    for place in search_sessions(home, ["e"]):
        datetime.fromisoformat(place.at)


def test_the_command_imports_folders_and_says_what_became_of_each(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')

    assert run(session, ["import", str(DATA)]) == 0
    printed, faults = capsys.readouterr()
    assert printed.count("  2 turns  ") == 2
    assert "left out: 2" in faults
    assert run(session, ["import", str(DATA)]) == 0
    assert capsys.readouterr().out.count("there already") == 2
    assert run(session, ["import", str(tmp_path / "other.jsonl")]) == 1
    assert "not a session" in capsys.readouterr().err
    assert run(session, ["import", str(tmp_path / "other.jsonl"), str(CODEX)]) == 0
    assert "skipped 1 file" in capsys.readouterr().err
    assert len(list(paths.sessions_folder(paths.kode_home()).glob("*.jsonl"))) == 2
