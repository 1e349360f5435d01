"""What the pages of sessions show, asked of the server in this process."""

import json
import re
from dataclasses import replace

from kode import paths
from kode.messages import Usage, user_message
from kode.plugins.view.pages import SESSIONS, TURNS
from kode.session import index
from kode.session.entries import CompactionEntry, HookEntry, RewindEntry, UndoEntry, UsageEntry
from kode.undo.journal import TurnId
from tests.plugins.view.conftest import (
    HOSTILE,
    a_session,
    assert_harmless,
    call,
    hostile_session,
    page_of,
    remember,
    result,
    says,
    turn,
    words_of,
)
from tests.session.stories import new_session, turn_entry
from tests.tables import for_each
from tests.undo.changes import change, undo_in


def test_an_empty_home_shows_pages_that_say_so(browser):
    assert "No sessions yet" in browser.get("/")
    assert "Nothing is pending" in browser.get("/memory")
    assert "0 requests" in browser.get("/costs")
    assert not paths.memory_folder(browser.place.home, None).exists()


def test_a_search_finds_by_task_folder_and_id(browser, tmp_path):
    home = browser.place.home
    first = a_session(home, ["Fix the RACE"], tmp_path / "uploader")
    second = a_session(home, ["rename a class"], tmp_path / "shop")

    for query, session in (("race fix", first), ("shop", second), (second, second)):
        page = browser.get(f"/?q={query}")
        assert [id for id in (first, second) if f"/sessions/{id}" in page] == [session]
    assert 'href="/sessions/' not in browser.get("/?q=nothing+such")
    assert f'<a href="/sessions/{first}">Fix the RACE</a>' in browser.get("/")


def test_a_search_finds_words_and_leads_to_their_turn(browser):
    session = new_session(browser.place.home)
    for number in range(TURNS):
        turn(session, f"ask {number}", says("re"))
    turn(session, "the last", says("the token was stale"))
    entry = session.entries[-2].id
    session.close()

    page = browser.get("/?q=stale+token")
    answer = browser.client.get(f"/sessions/{session.header.id}?at={entry}")

    assert f'/sessions/{session.header.id}?at={entry}">the token was stale</a>' in page
    assert answer.status_code == 303
    path, _, anchor = answer.headers["location"].partition("#")
    assert path.endswith("?page=2")
    assert f'<h3 id="{anchor}">Turn {TURNS + 1}' in browser.get(path)
    assert f"Turn {TURNS + 1} " not in words_of(browser.get(path.partition("?")[0]))


def test_a_long_list_comes_in_pages_that_keep_the_search(browser):
    home = browser.place.home
    ids = {a_session(home, [f"task {number}"]) for number in range(SESSIONS + 3)}

    pages = browser.get("/?q=task"), browser.get("/?q=task&page=2")

    first, second = (set(re.findall(r"/sessions/([\w-]+)", page)) for page in pages)
    assert (len(first), len(second), first | second) == (SESSIONS, 3, ids)
    for number in ("0", "-1", "x", "1e9", "٣", "9" * 5_000):
        assert browser.client.get("/", params={"page": number}).status_code == 200
    assert 'href="/?q=task&amp;page=2"' in pages[0]
    assert 'href="/?q=task&amp;page=1"' in pages[1]


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

    page = page_of(browser, session)

    assert "<del>- x = 1\n</del><ins>+ x = 3\n</ins><span>  y = 2\n</span>" in page
    words = words_of(page)
    assert "edit_file a.py done" in words
    assert re.search(r"shell pytest -q failed .* 1 failed", words)
    assert "shell sleep 9 without a result" in words


def test_a_replaced_file_is_compared_with_its_earlier_text(browser, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nkey = sk-proj-" + "a1B2" * 12 + "\n")
    session = new_session(browser.place.home, tmp_path)
    folder = paths.undo_folder(paths.session_folder(browser.place.home, session.header.id))
    session.append_message(user_message("replace it"))
    session.append_message(call("write_file", "c1", path="a.txt", content="one\n2\n"))
    session.append_message(result("write_file", "c1", "Replaced a.txt"))
    change(undo_in(folder), TurnId(session.turn_id, 1), tmp_path / "a.txt", "one\n2\n")
    session.append(replace(turn_entry(1, session), files_changed=(str(tmp_path / "a.txt"),)))

    page = page_of(browser, session)

    assert "<span>  one\n</span><del>- two\n</del>" in page
    assert "<ins>+ 2\n</ins>" in page
    assert "a1B2a1B2" not in page
    assert "1 file changed" in words_of(page)


def test_a_rewound_turn_is_marked_and_its_number_reused(browser):
    session = new_session(browser.place.home)
    turn(session, "first", says("one"))
    second = len(session.entries)
    turn(session, "second", says("two"))
    session.append(RewindEntry(to=session.entries[second].id))
    turn(session, "another", says("three"))

    words = words_of(page_of(browser, session))

    assert "Turn 2 rewound" in words
    assert "Rewound to before" in words
    assert words.count("Turn 2") == 2
    assert "Turn 3" not in words


def test_a_session_shows_its_cost_and_what_happened_to_it(browser):
    session = new_session(browser.place.home)
    turn(session, "one", says("a", tokens=9_000), cost_usd=0.5)
    session.append(
        CompactionEntry(summary="in short", tokens_before=9_000),
        UndoEntry(turn=1, files=("a.py",)),
        UndoEntry(turn=1, files=("a.py",), redo=True),
        HookEntry(
            event="Stop", name="lint", exit_code=0, outcome="deny", detail="no", duration_ms=1
        ),
    )
    turn(session, "two", says("b", tokens=2_000), cost_usd=0.25)
    session.append(
        UsageEntry(purpose="memory", usage=Usage(input_tokens=7), cost_usd=1.0, model="n")
    )

    words = words_of(page_of(browser, session))

    assert "Cost $1.75" in words
    assert "1 1 9,000 0 30 $0.50" in words
    assert "9,000 tokens in short Undid turn 1 a.py Redid turn 1 a.py Hook lint deny no" in words


def test_a_damaged_session_shows_what_is_left(browser):
    id = a_session(browser.place.home, ["task"])
    file = paths.session_file(browser.place.home, id)
    file.write_bytes(b"{damaged\n" + file.read_bytes().partition(b"\n")[2])

    words = words_of(browser.get(f"/sessions/{id}"))

    assert "first line" in words
    assert "re: task" in words


MISSING = ("20200101-000000-000000", "..%2f..%2fconfig", "x/agents/y")


@for_each("path", [*(f"/sessions/{name}" for name in MISSING), "/memory/changes", "/nowhere"])
def test_a_missing_page_is_a_404_with_a_heading(browser, path):
    answer = browser.client.get(path)

    assert answer.status_code == 404
    assert "<h1>" in answer.text


def test_a_fault_of_kode_is_a_page_and_a_report(browser, monkeypatch):
    monkeypatch.setattr(index, "files", lambda home: 1 / 0)

    answer = browser.client.get("/")

    assert answer.status_code == 500
    assert "internal error" in answer.text
    assert "division by zero" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    (report,) = paths.logs_folder(browser.place.home).glob("fault-*")
    assert "division by zero" in report.read_text()


async def test_hostile_texts_are_shown_as_text(browser):
    id = hostile_session(browser.place.home)
    await remember(browser.place)

    for path in ("/", f"/sessions/{id}", "/memory"):
        assert_harmless(browser.get(path))
    for path in (f"/sessions/{id}", "/memory"):
        assert "⟨U+001B⟩[2J⟨U+0007⟩ ⟨U+202E⟩gnp.exe⟨U+2066⟩" in browser.get(path)
    assert "&lt;b&gt;project" in browser.get("/costs")
    assert_harmless(browser.client.get("/", params={"q": HOSTILE[:190]}).text)


def test_subagents_are_a_tree_with_reports(browser):
    home = browser.place.home
    id = a_session(home, ["delegate it"])
    folder = paths.agents_folder(paths.session_folder(home, id))
    for name, goal in (("one", "find callers"), ("one/agents/two", "look deeper")):
        (folder / name).mkdir(parents=True)
        (folder / name / "task.json").write_text(json.dumps({"goal": goal}))
    summary = {"type": "result", "status": "error", "summary": "seven", "error": "too slow"}
    figures = {"files_changed": [], "tokens_used": 12, "steps": 3}
    (folder / "one" / "result.json").write_text(json.dumps(summary | figures))

    session = words_of(browser.get(f"/sessions/{id}"))

    assert "error find callers 3 steps · 12 tokens too slow Report seven" in session
    assert "a result look deeper" in session
