"""Sessions that a team shares: who sees which, what is in a line, and what happens without the
server.
"""

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import psycopg
import pytest

from kode import paths
from kode.cli.main import main
from kode.config import load_config
from kode.conversation import open_conversation
from kode.errors import KodeError, MemoryRefused
from kode.plugins.team.address import Address
from kode.plugins.team.server import Unreachable, open_server
from kode.plugins.team.sessions import Sharing, mark_file, team_sessions, withdraw
from kode.session import index, log
from tests.memory.life import notices
from tests.plugins.team.life import Machine, everything_of
from tests.session.stories import plain_turn

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data" / "other_sessions.jsonl"
STATEMENTS = [json.loads(line)["sql"] for line in DATA.read_text().splitlines()]


@pytest.fixture(params=["connecting", "a request"])
def hang(request, team):
    """Lets the server stop answering: while kode connects, or in the middle of a request."""
    with contextlib.ExitStack() as at_end:

        def stop():
            if request.param == "a request":
                connection = at_end.enter_context(psycopg.connect(team.url("owner")))
                connection.execute("LOCK TABLE kode.sessions")
                return
            file = team.server.folder / "data" / "postmaster.pid"
            process = int(file.read_text().splitlines()[0])
            os.kill(process, signal.SIGSTOP)
            at_end.callback(os.kill, process, signal.SIGCONT)

        yield stop


def test_colleagues_see_a_session_with_its_person_and_machine(machine):
    ada, bob = machine("ada"), machine("bob")
    ada_too = machine("ada", "big-server")
    ada.work("fix the parser")
    ada_too.work("run the long migration")
    ada.send()
    ada_too.send()

    found = team_sessions(bob.address)

    assert [(one.person, one.host, one.task, one.turns) for one in found] == [
        ("ada", "big-server", "run the long migration", 1),
        ("ada", "adas-laptop", "fix the parser", 1),
    ]
    assert {one.project for one in found} == {"example.org/api"}
    assert [(one.model, one.provider, one.cost_usd) for one in found] == [
        ("small", "scripted", 0.5)
    ] * 2


def test_a_line_follows_its_session_and_only_changes_are_sent(machine, monkeypatch):
    ada = machine("ada")
    first = ada.work("one")
    ada.work("two")
    ada.send()
    read = []
    whole = index.summarize
    seen = "kode.plugins.team.sessions.summarize_session"
    monkeypatch.setattr(seen, lambda path: read.append(path.stem) or whole(path))

    ada.work("and more", session_id=first)
    ada.send()

    assert [one.turns for one in team_sessions(ada.address)] == [2, 1]
    assert read == [first]


def test_the_list_has_filters(machine):
    ada, bob = machine("ada"), machine("bob")
    for task, project in (
        ("fix the Zebra", "api"),
        ("paint 50% of it", "web"),
        ("zebra, web", "web"),
    ):
        ada.work(task, project=project)
    ada.send()

    assert bob.sees(project=bob.project("web")) == ["zebra, web", "paint 50% of it"]
    assert bob.sees(words=["ZEBRA"]) == ["zebra, web", "fix the Zebra"]
    assert bob.sees(words=["zebra", "fix"]) == ["fix the Zebra"]
    assert bob.sees(words=["5_%"]) == []
    assert bob.sees(most=1) == ["zebra, web"]


def test_a_fleets_clone_belongs_to_the_project_it_came_from(machine):
    ada, bob = machine("ada"), machine("bob")
    source = ada.project("api")
    tree = ada.project("tree")
    (tree / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {source}\n')
    session = log.create(ada.home, cwd=tree, model="small", provider="scripted")
    plain_turn(session, "a task of a fleet")
    session.close()
    ada.send()

    assert bob.sees(project=bob.project("api")) == ["a task of a fleet"]


def test_an_old_session_is_shared_only_once_used_again(machine, team):
    ada = Machine(team, "ada", "adas-laptop", team.name)
    old = ada.work("long ago")
    path = paths.session_file(ada.home, old)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines[1:]:
        line["at"] = "2020-01-01T00:00:00.000Z"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    ada.send()
    assert ada.sees() == []

    ada.work("again", session_id=old)
    ada.send()

    assert ada.sees() == ["long ago"]


def test_a_session_deleted_during_an_outage_leaves_the_list(machine, team):
    ada, bob = machine("ada"), machine("bob")
    gone, kept = ada.work("one"), ada.work("two")
    ada.send()
    bob.work("of bob")
    bob.send()
    team.server.stop()
    try:
        ada.delete(gone)
        with pytest.raises(Unreachable, match="cannot be reached"):
            ada.send()
    finally:
        team.server.start()
    assert sorted(bob.sees()) == ["of bob", "one", "two"]

    ada.send()

    assert sorted(bob.sees()) == ["of bob", "two"]
    assert [one.id for one in team_sessions(bob.address, begins=kept)] == [kept]


def test_offline_sessions_are_sent_at_the_next_chance(machine, team):
    ada, bob = machine("ada"), machine("bob")
    team.server.stop()
    try:
        for number in range(3):
            ada.work(f"offline {number}")
            with pytest.raises(Unreachable):
                ada.send()
    finally:
        team.server.start()

    ada.send()

    assert sorted(bob.sees()) == ["offline 0", "offline 1", "offline 2"]


def test_the_person_withdraws_what_one_machine_shares(machine):
    ada, other, bob = machine("ada"), machine("ada", "big-server"), machine("bob")
    for one, task in ((ada, "one"), (other, "two")):
        one.work(task)
        one.send()

    assert withdraw(ada.home, ada.address) == 1

    assert bob.sees() == ["two"]


def test_credentials_in_a_task_and_in_a_folder_are_masked(machine, team):
    ada = machine("ada")
    key = "sk-proj-" + "Ab1" * 16
    session_id = ada.work(f"why is {key} refused?")
    path = paths.session_file(ada.home, session_id)
    path.write_text(path.read_text().replace("[redacted", key + " [redacted"))
    assert key in path.read_text()

    ada.send()

    with psycopg.connect(team.url("owner")) as connection:
        ((row,),) = connection.execute("SELECT s::text FROM kode.sessions s").fetchall()
    assert "why is" in row
    assert key not in row


def test_a_subagents_session_is_not_in_the_list(machine):
    ada = machine("ada")
    cwd = ada.project("api")
    child = log.create(ada.home, cwd=cwd, model="m", provider="p", parent="20260101-000000-aaaaaa")
    plain_turn(child, "of a subagent")
    child.close()

    ada.send()

    assert ada.sees() == []


def test_a_text_no_database_holds_is_sent_cleaned(machine):
    ada = machine("ada")
    ada.work("zero \0 byte, \ud800 half a pair, \\u0000 as it is written, 'quoted' %s")

    ada.send()

    (task,) = ada.sees()
    assert "as it is written, 'quoted' %s" in task


async def test_no_statement_reads_or_changes_another_teams_session(machine, team):
    rivals = Address(team.url("owner"), "rivals", "h")
    async with open_server(rivals) as server:
        await server.admit("eve", "*")
    ada, eve = machine("ada"), machine("eve", name="rivals")
    session_id = ada.work("the zebra stands in the cellar")
    eve.work("what the rivals do")
    ada.send()
    eve.send()

    shown = []
    for statement in STATEMENTS:
        with psycopg.connect(team.url("eve"), autocommit=True) as connection:
            found = everything_of(connection, statement)
            marks = ("zebra stands", "adas-laptop", session_id)
            shown += [(statement, one) for one in found if any(mark in one for mark in marks)]

    assert shown == []
    assert len(STATEMENTS) >= 20
    assert eve.sees() in (["what the rivals do"], [])  # one of the statements removes her own
    assert ada.sees() == ["the zebra stands in the cellar"]


async def test_a_member_of_one_project_shares_only_that_project(machine, team):
    await team.prepare("eve", scope="project:example.org/api")
    ada, eve = machine("ada"), machine("eve")
    for one in (ada, eve):
        for project in ("api", "web"):
            one.work(f"{project} of {one.person}", project=project)
        one.send()

    assert sorted(eve.sees()) == ["api of ada", "api of eve"]
    assert sorted(ada.sees()) == ["api of ada", "api of eve", "web of ada"]


def test_nobody_changes_the_line_of_a_colleague(machine):
    ada, bob = machine("ada"), machine("bob")
    session_id = ada.work("of ada")
    ada.send()
    copied = paths.session_file(bob.home, session_id)
    copied.parent.mkdir(parents=True, exist_ok=True)
    copied.write_bytes(paths.session_file(ada.home, session_id).read_bytes())
    bob.work("and of bob", session_id=session_id)
    bob.send()
    bob.delete(session_id)

    bob.send()

    assert [(one.person, one.turns) for one in team_sessions(bob.address)] == [("ada", 1)]


def test_a_stranger_to_the_team_is_told_and_shares_nothing(machine):
    eve = machine("eve")
    eve.work("of eve")

    with pytest.raises(MemoryRefused, match=r"eve .* platform"):
        eve.send()
    assert eve.sees() == []


def test_a_damaged_mark_is_set_aside_and_said(machine):
    ada = machine("ada")
    path = mark_file(ada.home, ada.address.key)
    path.write_text("{")

    with pytest.raises(KodeError):
        ada.send()
    assert [one.read_text() for one in path.parent.glob(f"{path.name}.damaged-*")] == ["{"]

    ada.work("after that")
    ada.send()
    assert ada.sees() == ["after that"]


# ── in a conversation ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def conversation(team, monkeypatch):
    """A scripted conversation of a person who shares."""
    monkeypatch.setenv("KODE_HOME", str(team.root / "home"))
    cwd = team.root / "project"
    cwd.mkdir()
    script = team.root / "script.json"
    script.write_text(json.dumps([{"text": "Done."}] * 3))

    async def opened(events, person="ada", **settings):
        flags = {
            "provider": "scripted",
            "script": str(script),
            "memory.enabled": False,
            "memory.notes.url": team.url(person),
            "memory.notes.team": team.name,
            "memory.notes.host": "laptop",
            "sessions.share": True,
            **settings,
        }
        loaded = load_config(team.root / "home", cwd, environ={}, flags=flags)
        return await open_conversation(loaded, cwd=cwd, emit=events.append, ask=None)

    return opened


async def test_a_session_worked_on_is_listed_after_its_process_ended(conversation, machine):
    events = []
    talk = await conversation(events)
    for task in ("fix the parser", "and the tests"):
        await talk.turn(task)
    await talk.close()

    (one,) = team_sessions(machine("bob").address)

    assert (one.task, one.turns, one.host) == ("fix the parser", 2, "laptop")
    assert one.id == talk.session.id
    assert notices(events) == []


async def test_the_address_of_the_notes_alone_shares_no_session(conversation, machine):
    talk = await conversation([], **{"sessions.share": False})
    await talk.turn("private")
    await talk.close()

    assert machine("bob").sees() == []


async def test_sharing_without_a_server_is_said(conversation):
    events = []
    talk = await conversation(events, **{"memory.notes.url": None})
    await talk.close()

    assert [text for text in notices(events) if "names no server" in text] != []


async def test_a_hanging_server_delays_no_turn_and_the_end_briefly(conversation, hang):
    events = []
    talk = await conversation(events)
    hang()

    ended = await asyncio.wait_for(talk.turn("one"), 60)
    await asyncio.wait_for(talk.close(), 60)

    assert ended.status == "success"
    (said,) = notices(events)
    assert "no answer in 1 s" in said


async def test_a_fault_is_said_once_and_the_server_left_alone(machine, team):
    ada, events = machine("ada"), []
    sharing = Sharing(
        ada.home, Address("postgresql://ada@127.0.0.1:9/x", "t", "h"), events.append, str
    )
    for number in range(3):
        await sharing.finish(ada.work(f"turn {number}"))

    assert len(notices(events)) == 1


# ── at the command line ──────────────────────────────────────────────────────────────────────


@pytest.fixture
def kode(monkeypatch, capsys):
    def run(machine, *argv, url=None):
        home = machine.home
        home.mkdir(exist_ok=True)
        notes = {"url": url or machine.address.url, "team": machine.name, "host": machine.host}
        settings = {"memory": {"notes": notes}, "sessions": {"share": True}}
        paths.config_file(home).write_text(json.dumps(settings))
        monkeypatch.setenv("KODE_HOME", str(home))
        monkeypatch.chdir(machine.project("api"))
        code = main(list(argv))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_the_list_of_the_team_names_whose_each_is(machine, kode):
    ada, bob = machine("ada"), machine("bob")
    session_id = ada.work("fix the parser")
    ada.work("paint it", project="web")
    ada.send()

    everywhere = kode(bob, "session", "list", "--team")
    here = kode(bob, "session", "list", "--team", "--here")
    found = json.loads(kode(bob, "session", "list", "--team", "--json")[1])
    searched = kode(bob, "session", "search", "--team", "parser")
    local = kode(bob, "session", "list")

    assert [everywhere[1].count(one) for one in ("ada@adas-laptop", "example.org/web")] == [2, 1]
    assert (session_id in here[1], "paint it" in here[1]) == (True, False)
    assert [(one["person"], one["task"]) for one in found] == [
        ("ada", "paint it"),
        ("ada", "fix the parser"),
    ]
    assert (session_id in searched[1], "paint" in searched[1]) == (True, False)
    assert local[1] == "No sessions yet. `kode` starts one.\n"


@pytest.mark.parametrize("argv", [["session", "show"], ["continue", "--id"], ["resume"]])
def test_a_session_of_another_machine_is_named_with_the_machine(machine, kode, argv):
    ada, bob = machine("ada"), machine("bob")
    session_id = ada.work("fix the parser")
    ada.send()

    code, _, err = kode(bob, *argv, session_id[:-2])
    unknown = kode(bob, *argv, "20200101-000000-abcdef")
    away = kode(bob, *argv, session_id, url="postgresql://bob@127.0.0.1:9/x")

    assert code == 3
    assert f"Session {session_id} is on adas-laptop, where ada last used it" in err
    assert "'20200101-000000-abcdef'" in unknown[2]
    assert "adas-laptop" not in unknown[2] + away[2]
    assert away[2].replace(session_id[:-2], "") != unknown[2].replace("20200101-000000-abcdef", "")


def test_deleting_removes_the_line_or_says_it_stays_for_now(machine, kode):
    ada, bob = machine("ada"), machine("bob")
    one, two = ada.work("one"), ada.work("two")
    ada.send()

    deleted = kode(ada, "session", "delete", one)
    away = kode(ada, "session", "delete", two, url="postgresql://ada@127.0.0.1:9/x")

    assert deleted[0] == away[0] == 0
    assert deleted[2] == ""
    assert bob.sees() == ["two"]
    assert away[2] != ""
    assert "1 session" in kode(ada, "session", "unshare")[1]
    assert bob.sees() == []
