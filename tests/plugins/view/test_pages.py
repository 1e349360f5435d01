"""What each page shows, asked of the server in this process."""

import json
import os
import re
from dataclasses import replace
from datetime import datetime

import pytest

from kode import paths
from kode.messages import Usage, user_message
from kode.plugins.view.costs import costs
from kode.plugins.view.pages import SESSIONS, TURNS
from kode.plugins.view.transcript import turns_of
from kode.session import index
from kode.session.change_log import Change, Group
from kode.session.checkpoints import Checkpoints, FileChanges
from kode.session.entries import CompactionEntry, RewindEntry, UsageEntry
from kode.session.transcript import Transcript
from tests.plugins.view.conftest import (
    HOSTILE,
    a_session,
    call,
    hostile_session,
    remember,
    result,
    says,
    turn,
)
from tests.plugins.view.reading import assert_harmless, words_of
from tests.session.stories import contents_in, new_session, turn_entry

# ── sessions ─────────────────────────────────────────────────────────────────────────────────


def test_an_empty_home_shows_pages_that_say_so(browser):
    assert "No sessions yet" in browser.get("/")
    assert "Nothing is pending" in browser.get("/memory")
    assert "No fleet yet" in browser.get("/fleets")
    assert "0 requests" in browser.get("/costs")
    assert not paths.memory_folder(browser.place.home, None).exists()


def test_the_list_names_each_session_by_its_first_task(browser):
    id = a_session(browser.place.home, ["fix the race", "and the test"])

    page = browser.get("/")

    assert f'<a href="/sessions/{id}">fix the race</a>' in page
    assert "1 session" in page


def test_a_search_finds_by_task_folder_and_id(browser, tmp_path):
    home = browser.place.home
    first = a_session(home, ["Fix the RACE"], tmp_path / "uploader")
    second = a_session(home, ["rename a class"], tmp_path / "shop")

    for query, found in (("race fix", first), ("shop", second), (second, second)):
        page = browser.get(f"/?q={query}")
        assert [id for id in (first, second) if f"/sessions/{id}" in page] == [found]
    assert 'href="/sessions/' not in browser.get("/?q=nothing+such")


def test_a_search_finds_words_and_leads_to_their_turn(browser):
    session = new_session(browser.place.home)
    for number in range(TURNS):
        turn(session, f"ask {number}", says("re"))
    turn(session, "the last", says("the token was stale"))
    entry = session.entries[-2].id
    session.close()

    page = browser.get("/?q=stale+token")
    led = browser.client.get(f"/sessions/{session.header.id}?at={entry}")

    assert f'/sessions/{session.header.id}?at={entry}">the token was stale</a>' in page
    assert led.status_code == 303
    path, _, anchor = led.headers["location"].partition("#")
    assert path.endswith("?page=2")
    assert f'<h3 id="{anchor}">Turn {TURNS + 1}' in browser.get(path)


def test_a_long_list_comes_in_pages_that_keep_the_search(browser):
    home = browser.place.home
    ids = {a_session(home, [f"task {number}"]) for number in range(SESSIONS + 3)}

    first, second = browser.get("/?q=task"), browser.get("/?q=task&page=2")

    on_first, on_second = (set(re.findall(r"/sessions/([\w-]+)", p)) for p in (first, second))
    assert (len(on_first), len(on_second)) == (SESSIONS, 3)
    assert on_first | on_second == ids
    assert 'href="/?q=task&amp;page=2"' in first
    assert 'href="/?q=task&amp;page=1"' in second


@pytest.mark.parametrize("page", ["0", "-1", "x", "1e9", "٣", "9" * 5_000])
def test_any_number_of_a_page_is_answered(browser, page):
    a_session(browser.place.home, ["task"])

    assert browser.client.get("/", params={"page": page}).status_code == 200


def test_the_first_of_5000_sessions_reads_one_page_of_files(browser, monkeypatch):
    """Whatever the machine is doing: the work of the first view does not grow with their number."""
    id = a_session(browser.place.home, ["task"])
    lines = paths.session_file(browser.place.home, id).read_text()
    for number in range(5_000):
        copy = paths.session_file(browser.place.home, f"20250101-{number:06}-abcdef")
        copy.write_text(lines.replace(id, copy.stem))
        os.utime(copy, (number, number))
    read = []
    summarize = index._summarize
    monkeypatch.setattr(index, "_summarize", lambda *a: read.append(a) or summarize(*a))

    page = browser.get("/")

    assert "5,001 sessions" in page
    assert len(read) <= SESSIONS + 2


# ── one session ──────────────────────────────────────────────────────────────────────────────


def test_a_session_shows_calls_with_their_diffs_and_outcomes(browser, tmp_path):
    session = new_session(browser.place.home, tmp_path)
    turn(
        session,
        "fix it",
        call("edit_file", "c1", path="a.py", old_text="x = 1\ny = 2", new_text="x = 3\ny = 2"),
        result("edit_file", "c1", "Edited a.py in 1 place."),
        call("shell", "c2", command="pytest -q"),
        result("shell", "c2", "1 failed", is_error=True),
        call("shell", "c3", command="sleep 9"),
        says("done"),
    )
    session.close()

    page = browser.get(f"/sessions/{session.header.id}")

    assert "<del>- x = 1\n</del><ins>+ x = 3\n</ins><span>  y = 2\n</span>" in page
    words = words_of(page)
    assert "edit_file a.py done" in words
    assert "shell pytest -q failed" in words
    assert "1 failed" in words
    assert "shell sleep 9 without a result" in words


def test_a_replaced_file_is_compared_with_its_earlier_text(browser, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nkey = sk-proj-" + "a1B2" * 12 + "\n")
    session = new_session(browser.place.home, tmp_path)
    folder = paths.checkpoints_folder(paths.session_folder(browser.place.home, session.header.id))
    kept = Checkpoints(folder=folder, contents=contents_in(folder))
    kept.keep(1, str(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_text("one\n2\n")
    kept.changed(str(tmp_path / "a.txt"))
    kept.end_turn()
    turn(
        session,
        "replace it",
        call("write_file", "c1", path="a.txt", content="one\n2\n"),
        result("write_file", "c1", "Replaced a.txt"),
    )
    session.close()

    page = browser.get(f"/sessions/{session.header.id}")

    assert "<span>  one\n</span><del>- two\n</del>" in page
    assert "<ins>+ 2\n</ins>" in page
    assert "a1B2a1B2" not in page
    assert "1 file changed" in words_of(page)
    kept.undo()
    assert "a.txt · undone" in words_of(browser.get(f"/sessions/{session.header.id}"))


def test_a_change_belongs_to_the_turn_naming_its_file(tmp_path):
    session = new_session(paths.home(), tmp_path)
    turn(session, "only talk", says("one"))
    session.append(RewindEntry(to=session.entries[0].id))
    session.append_message(user_message("write it"))
    file = str(tmp_path / "a.txt")
    session.append(replace(turn_entry(1, session), files_changed=(file,)))
    session.close()
    group = Group(number=0, turn=1, files={file: [Change(turn=1, path=file, before=None)]})

    transcript = Transcript(header=session.header, entries=session.entries)
    talk, write = turns_of(transcript, FileChanges(groups=(group,)))

    assert (talk.number, talk.is_rewound, talk.files) == (1, True, ())
    assert (write.number, write.files) == (1, (("a.txt", False),))


def test_a_rewound_turn_is_marked_and_its_number_reused(browser):
    session = new_session(browser.place.home)
    turn(session, "first", says("one"))
    second = session.append_message(says("x")) and len(session.entries)
    turn(session, "second", says("two"))
    session.append(RewindEntry(to=session.entries[second].id))
    turn(session, "another", says("three"))
    session.close()

    words = words_of(browser.get(f"/sessions/{session.header.id}"))

    assert "Turn 2 rewound" in words
    assert words.count("Turn 2") == 2
    assert "Turn 3" not in words


def test_a_session_shows_its_cost_and_its_compactions(browser):
    session = new_session(browser.place.home)
    turn(session, "one", says("a", tokens=9_000), cost_usd=0.5)
    session.append(CompactionEntry(summary="in short", tokens_before=9_000))
    turn(session, "two", says("b", tokens=2_000), cost_usd=0.25)
    session.append(
        UsageEntry(purpose="memory", usage=Usage(input_tokens=7), cost_usd=1.0, model="n")
    )
    session.close()

    words = words_of(browser.get(f"/sessions/{session.header.id}"))

    assert "Cost $1.75" in words
    assert "1 1 9,000 0 30 9,030 $0.5000 $0.5000" in words
    assert "9,000 tokens in short" in words


def test_a_long_session_comes_in_pages(browser):
    id = a_session(browser.place.home, [f"ask {number}" for number in range(TURNS + 2)])

    first, second = browser.get(f"/sessions/{id}"), browser.get(f"/sessions/{id}?page=2")

    assert f"Turn {TURNS} " in words_of(first)
    assert f"Turn {TURNS + 1} " not in words_of(first).partition("Conversation")[2]
    assert f"Turn {TURNS + 2} " in words_of(second)


def test_a_damaged_session_shows_what_is_left(browser):
    id = a_session(browser.place.home, ["task"])
    file = paths.session_file(browser.place.home, id)
    file.write_bytes(b"{damaged\n" + file.read_bytes().partition(b"\n")[2])

    page = browser.get(f"/sessions/{id}")

    assert "first line" in words_of(page)
    assert "re: task" in words_of(page)


@pytest.mark.parametrize(
    "path",
    [
        "/sessions/20200101-000000-000000",
        "/sessions/..%2f..%2fconfig",
        "/sessions/x/agents/y",
        "/memory/changes",
        "/agents",
        "/nowhere",
    ],
)
def test_a_missing_page_is_a_404_with_a_heading(browser, path):
    answer = browser.client.get(path)

    assert answer.status_code == 404
    assert "<h1>" in answer.text


def test_a_fault_of_kode_is_a_page_and_a_report(browser, monkeypatch):
    monkeypatch.setattr(index, "files", lambda home: 1 / 0)

    answer = browser.client.get("/")

    assert answer.status_code == 500
    assert "An internal error in kode" in answer.text
    assert "ZeroDivisionError" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    (report,) = paths.logs_folder(browser.place.home).glob("fault-*")
    assert "ZeroDivisionError" in report.read_text()


# ── texts that mean harm ─────────────────────────────────────────────────────────────────────


async def test_texts_of_a_hostile_session_are_shown_as_text(browser):
    id = hostile_session(browser.place.home)
    await remember(browser.place)

    for path in ("/", f"/sessions/{id}", "/memory"):
        assert_harmless(browser.get(path))
    for path in (f"/sessions/{id}", "/memory"):
        assert "⟨U+001B⟩[2J⟨U+0007⟩ ⟨U+202E⟩gnp.exe⟨U+2066⟩" in browser.get(path)
    assert "&lt;b&gt;project" in browser.get("/costs")


def test_a_query_is_shown_as_text(browser):
    answer = browser.client.get("/", params={"q": HOSTILE[:190]})

    assert "<script" not in answer.text
    assert "&lt;script&gt;" in answer.text


# ── subagents and costs ──────────────────────────────────────────────────────────────────────


def test_subagents_are_a_tree_with_reports_and_transcripts(browser):
    home = browser.place.home
    id = a_session(home, ["delegate it"])
    folder = paths.agents_folder(paths.session_folder(home, id))
    for name, goal in (("one", "find callers"), ("one/agents/two", "look deeper")):
        (folder / name).mkdir(parents=True)
        (folder / name / "task.json").write_text(json.dumps({"goal": goal}))
    summary = {"type": "result", "status": "error", "summary": "seven", "error": "too slow"}
    figures = {"files_changed": [], "tokens_used": 12, "steps": 3}
    (folder / "one" / "result.json").write_text(json.dumps(summary | figures))
    child = new_session(home)
    turn(child, "find callers", says("I found seven"))
    child.close()
    paths.session_file(home, child.header.id).rename(folder / "one" / "transcript.jsonl")

    session = words_of(browser.get(f"/sessions/{id}"))
    inside = browser.get(f"/sessions/{id}/agents/one")

    assert "error find callers 3 steps · 12 tokens too slow Report seven" in session
    assert "interrupted, without a result look deeper" in session
    assert "I found seven" in inside
    assert "look deeper" in inside
    assert browser.client.get(f"/sessions/{id}/agents/one/two").status_code == 404


def test_costs_are_summed_by_day_project_and_model(browser, tmp_path):
    home = browser.place.home
    a_session(home, ["a", "b"], tmp_path / "one")
    a_session(home, ["c"], tmp_path / "two")

    _, values = costs(browser.place, {"days": "7"})
    rows = (values["costs"][name] for name in ("days", "projects"))
    days, projects = ([(key, spent.cost_usd) for key, spent in group] for group in rows)

    assert days == [(f"{datetime.now():%Y-%m-%d}", 0.75)]
    assert projects == [(str(tmp_path / "one"), 0.5), (str(tmp_path / "two"), 0.25)]
    assert "$0.7500 for 3 requests" in words_of(browser.get("/costs?days=7"))


def test_an_unknown_price_is_not_shown_as_nothing(browser):
    session = new_session(browser.place.home)
    session.append_message(says("a"))
    session.close()

    assert "unknown for 1 request" in words_of(browser.get("/costs"))
