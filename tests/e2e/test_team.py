"""Notes of a team through the installed command, on two machines and one server."""

import asyncio

import pytest

from kode.plugins.team.server import TeamLog, manage
from tests.e2e.command import Place
from tests.e2e.test_memory import call, run
from tests.postgres import SYSTEM, started

NOTES = ("--memory", "notes")


@pytest.fixture
def server():
    running = started(SYSTEM)
    yield running
    running.end()


@pytest.fixture
def machine(server, tmp_path):
    """The machine of a person who is of the team."""
    server.make_database("kode", "ada", "bob")
    owner = TeamLog(server.url("owner", "kode"), "default", "server")
    for action, person in (("init", None), ("admit", "ada"), ("admit", "bob")):
        asyncio.run(manage(owner, action, person))

    def made(person):
        (tmp_path / person).mkdir()
        place = Place(tmp_path / person)
        place.extra["KODE_NOTES_URL"] = server.url(person, "kode")
        return place

    return made


def test_a_colleagues_note_is_prompted_even_after_an_outage(machine, server):
    ada, bob = machine("ada"), machine("bob")
    rule = {"kind": "rule", "confidence": 0.9, "evidence": ["said by the user"]}
    kept = [call("remember", content="never force-push", **rule), {"text": "Kept."}]
    server.stop()
    first, _ = run(ada, kept, "run", "never force-push", *NOTES)
    server.start()
    run(ada, [{"text": "Hi."}], "run", "hello", *NOTES)

    done, requests = run(bob, [{"text": "Hi."}], "run", "hello", *NOTES)

    system = str(requests[0]["messages"][0]["content"])
    assert "cannot be reached" in first.err
    assert "[rule] never force-push" in system
    assert 'memory: ada: added to rule: "never force-push"' in done.err
    assert "from ada on" in bob.run("memory", "show", "--memory", "notes").out
