"""What each page shows, asked of the server in this process."""

import html
import json
import os
import re
from datetime import UTC, datetime

import pytest
from selectolax.lexbor import LexborHTMLParser

from kode import paths
from kode.conversation.memory import outside_context
from kode.events import silent
from kode.memory import make_system
from kode.memory.base import Addition
from kode.memory.history import Author, Change
from kode.memory.proposals import Proposals
from kode.memory.source import citing
from kode.messages import Usage
from kode.session import index
from kode.session.checkpoints import Checkpoints
from kode.session.entries import CompactionEntry, RewindEntry, UsageEntry
from kode.view import remembered, spent
from kode.view.access import Keys
from kode.view.pages import SESSIONS, TURNS
from tests.memory.life import NOON
from tests.session.stories import contents_in, new_session
from tests.view.conftest import (
    ADDRESS,
    HOSTILE,
    TAINTED,
    a_session,
    call,
    client_of,
    hostile_session,
    make_place,
    remember,
    result,
    says,
    turn,
)


def words_of(page: str) -> str:
    """What a person reads: no markup, white space folded."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


# ── sessions ─────────────────────────────────────────────────────────────────────────────────


def test_an_empty_home_shows_pages_that_say_so(browser):
    assert "No sessions yet" in browser.get("/")
    assert "Nothing waits for approval" in browser.get("/memory")
    assert "Nothing was changed yet" in browser.get("/memory/changes")
    assert "No session has started a subagent" in browser.get("/agents")
    assert "0 requests" in browser.get("/costs")
    assert not paths.memory_folder(browser.place.home, None).exists()


def test_the_list_names_each_session_by_its_first_task(browser):
    id = a_session(browser.place.home, ["fix the race", "and the test"])

    page = browser.get("/")

    assert f'<a href="/sessions/{id}">fix the race</a>' in page
    assert "1 session, the last used first" in page


def test_a_search_finds_by_task_folder_and_id(browser, tmp_path):
    home = browser.place.home
    first = a_session(home, ["Fix the RACE"], tmp_path / "uploader")
    second = a_session(home, ["rename a class"], tmp_path / "shop")

    for query, found in (("race fix", first), ("shop", second), (second, second)):
        page = browser.get(f"/?q={query}")
        assert [id for id in (first, second) if f"/sessions/{id}" in page] == [found]
    assert "No session matches" in browser.get("/?q=nothing+such")


def test_a_search_finds_what_was_said_and_leads_to_its_turn(browser):
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
def test_a_page_that_is_none_is_the_first_or_an_empty_one(browser, page):
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


def test_a_file_that_was_replaced_is_compared_with_what_it_held(browser, tmp_path):
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
    assert "1 file changed in this turn" in words_of(page)
    kept.undo()
    assert "a.txt · undone" in words_of(browser.get(f"/sessions/{session.header.id}"))


def test_what_was_rewound_is_shown_as_such_and_numbers_start_again(browser):
    session = new_session(browser.place.home)
    turn(session, "first", says("one"))
    second = session.append_message(says("x")) and len(session.entries)
    turn(session, "second", says("two"))
    session.append(RewindEntry(to=session.entries[second].id))
    turn(session, "another", says("three"))
    session.close()

    words = words_of(browser.get(f"/sessions/{session.header.id}"))

    assert "Turn 2 rewound" in words
    assert "Rewound to before turn 2" in words
    assert words.count("Turn 2") == 2
    assert "Turn 3" not in words


def test_a_session_shows_what_it_cost_and_where_it_was_compacted(browser):
    session = new_session(browser.place.home)
    turn(session, "one", says("a", tokens=9_000), cost_usd=0.5)
    session.append(CompactionEntry(summary="in short", tokens_before=9_000))
    turn(session, "two", says("b", tokens=2_000), cost_usd=0.25)
    session.append(
        UsageEntry(purpose="memory", usage=Usage(input_tokens=7), cost_usd=1.0, model="n")
    )
    session.close()

    page = browser.get(f"/sessions/{session.header.id}")
    words = words_of(page)

    assert "Cost $1.75" in words
    assert "1 1 9,000 0 30 9,030 $0.5000 $0.5000" in words
    assert "Compacted: a summary stands for 9,000 tokens in short" in words
    assert page.count('<line class="mark"') == 1
    assert 'role="img" aria-labelledby="context-title context-summary"' in page


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
        "/memory/changes/none",
        "/nowhere",
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(browser, path):
    answer = browser.client.get(path)

    assert answer.status_code == 404
    assert "<h1>" in answer.text


# ── texts that mean harm ─────────────────────────────────────────────────────────────────────


def assert_harmless(page: str) -> None:
    """Nothing of the hostile text became markup, and nothing of it is unseen."""
    for node in LexborHTMLParser(page).root.traverse():
        assert node.tag not in ("script", "img", "iframe", "object", "base")
        for name, value in node.attributes.items():
            assert not name.startswith("on")
            assert name != "style"
            assert name not in ("href", "src", "action") or value[:1] in ("/", "#", "d")
    assert "<h1>owned" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert "&lt;script&gt;" in page


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


# ── memory ───────────────────────────────────────────────────────────────────────────────────


async def test_memory_shows_each_entry_with_where_it_came_from(browser):
    await remember(browser.place)

    page = browser.get("/memory")
    words = words_of(page)

    assert "prefers tabs facts/user.md · everywhere · add by you" in words
    assert "the port is 9090 facts/env.md · everywhere · replace by you" in words
    assert "waits for approval" in words
    assert "3 changes in the history" in words


async def test_the_history_can_be_walked_from_an_entry_to_what_it_was_made_of(browser):
    await remember(browser.place)
    (replaced,) = re.findall(r'href="(/memory/changes/\w+)">replace', browser.get("/memory"))

    page = browser.get(replaced)
    (added,) = re.findall(r'href="(/memory/changes/\w+)">add', page)
    back = re.findall(r'href="(/memory/changes/\w+)">replace', browser.get(added))

    assert "the port is 8080" in words_of(page)
    assert back == [replaced]


async def test_an_approval_counts_and_can_be_undone(browser):
    await remember(browser.place)
    page = browser.get("/memory")
    (path,) = re.findall(r'action="(/memory/approve/[^"]+)"', page)
    (token,) = re.findall(r'name="token" value="([^"]+)"', page)

    done = browser.client.post(path, data={"token": token}, headers={"origin": browser.keys.origin})

    assert done.status_code == 200
    assert "kode memory undo" in done.text
    assert "Nothing waits for approval" in browser.get("/memory")
    newest = (await remembered.history(browser.place.config, browser.place.cwd))[0].change
    assert (newest.kind, newest.who, TAINTED in newest.target) == ("approve", "user", True)
    again = browser.client.post(
        path, data={"token": token}, headers={"origin": browser.keys.origin}
    )
    assert again.status_code == 404
    assert "Nothing waits under this id" in again.text


def test_memory_that_is_off_says_so(tmp_path):
    keys = Keys(address=ADDRESS)
    client = client_of(make_place(tmp_path, memory={"enabled": False}), keys)
    client.get(keys.link)

    answer = client.get("/memory")

    assert answer.status_code == 404
    assert "Memory is off" in answer.text


async def test_what_another_agent_proposes_is_approved_like_the_rest(browser, tmp_path):
    place = browser.place
    proposals = Proposals(paths.memory_folder(place.home, None))
    await proposals.propose(
        f"prefers tabs {HOSTILE[:60]}", "user", client="zed", project=tmp_path, now=NOON
    )
    page = browser.get("/memory")
    (path,) = re.findall(r'action="(/memory/approve/[^"]+)"', page)

    done = browser.client.post(
        path,
        data={"token": browser.keys.form_token(path)},
        headers={"origin": browser.keys.origin},
    )

    assert "by zed in" in words_of(page)
    assert_harmless(page)
    assert done.status_code == 200
    after = words_of(browser.get("/memory"))
    assert "Nothing waits for approval" in after
    assert "prefers tabs" in after


async def test_an_entry_that_rests_on_code_is_marked_when_the_lines_have_changed(tmp_path):
    (tmp_path / ".git").mkdir()
    code = tmp_path / "server.py"
    code.write_text("PORT = 8080\n")
    place, keys = make_place(tmp_path), Keys(address=ADDRESS)
    system = make_system(place.config.memory)
    await system.open(outside_context(place.config, tmp_path, emit=silent), {})
    author = citing(Author(who="model", words="which port?"), tmp_path, "server.py:1")
    await system.writer.add("env", "project", "the port is 8080", author)
    await system.close(1.0)
    client = client_of(place, keys)
    client.get(keys.link)

    fresh = words_of(client.get("/memory").text)
    (change,) = re.findall(r'"(/memory/changes/\w+)"', client.get("/memory").text)
    code.write_text("PORT = 9090\n")

    assert "may be stale" not in fresh
    assert "may be stale: server.py:1 changed" in words_of(client.get("/memory").text)
    chain = words_of(client.get(change).text)
    assert "You had asked which port?" in chain
    assert "from server.py:1 (changed since)" in chain


def test_changes_are_linked_by_the_texts_they_share_and_by_undos():
    def change(id, before=(), after=(), **values):
        return Change(
            id=id,
            kind="k",
            target="t",
            system="s",
            who="user",
            before=before,
            after=after,
            **values,
        )

    oldest_first = [
        change("1", after=("a",)),
        change("2", before=("a",), after=("b",)),
        change("3", before=("b",), after=("a",), undoes="2"),
        change("4", before=("a",), after=("b",), undoes="3"),
        change("5", after=("unrelated",)),
    ]

    found = {one.change.id: one for one in remembered.linked(oldest_first[::-1])}

    assert [c.id for c in found["2"].made_from] == ["1"]
    assert [c.id for c in found["3"].made_from] == ["2"]
    assert found["3"].undone_by is not None
    assert found["3"].undone_by.id == "4"
    assert found["2"].undone_by is None
    assert found["5"].made_from == found["5"].led_to == ()


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

    trees, session = browser.get("/agents"), browser.get(f"/sessions/{id}")
    inside = browser.get(f"/sessions/{id}/agents/one")

    for page in (trees, session):
        words = words_of(page)
        assert "error find callers 3 steps · 12 tokens too slow Report seven" in words
        assert "interrupted, without a result look deeper" in words
    assert "I found seven" in inside
    assert "look deeper" in inside
    assert browser.client.get(f"/sessions/{id}/agents/one/two").status_code == 404


def test_costs_are_summed_by_day_project_and_model(browser, tmp_path):
    home = browser.place.home
    a_session(home, ["a", "b"], tmp_path / "one")
    a_session(home, ["c"], tmp_path / "two")

    found = spent.overview(home, 7, datetime.now(UTC))
    words = words_of(browser.get("/costs?days=7"))

    assert len(found.plot.bars) == 7
    assert [(day, day_spent.cost_usd) for day, day_spent in found.days] == [
        (f"{datetime.now(UTC):%Y-%m-%d}", 0.75)
    ]
    assert [(name, one.cost_usd) for name, one in found.projects] == [
        (str(tmp_path / "one"), 0.5),
        (str(tmp_path / "two"), 0.25),
    ]
    assert "$0.7500 for 3 requests in the last 7 days" in words


def test_an_unknown_price_is_not_shown_as_nothing(browser):
    session = new_session(browser.place.home)
    session.append_message(says("a"))
    session.close()

    assert "unknown for 1 request" in words_of(browser.get("/costs"))


@pytest.mark.parametrize(
    ("system", "target"),
    [("tiered", "user"), ("vault", "user"), ("journal", "memory"), ("notes", "note")],
)
async def test_every_system_shows_its_entries_and_who_made_them(tmp_path, system, target):
    place, keys = make_place(tmp_path, memory={"system": system}), Keys(address=ADDRESS)
    memory = make_system(place.config.memory)
    await memory.open(outside_context(place.config, place.cwd, emit=silent), {})
    await memory.add(Addition(target=target, text="prefers tabs"))
    await memory.close(1.0)
    client = client_of(place, keys)
    client.get(keys.link)

    words = words_of(client.get("/memory").text)

    assert f"The {system} system" in words
    assert re.search(r"prefers tabs .{0,80}(?:by you|written by hand)", words)
    assert "by you" in words_of(client.get("/memory/changes").text)
