"""What a member writes, the others get; nobody loses or ends what another person said."""

import pytest

from kode.errors import MemoryRefused
from kode.memory.contract import Turn
from kode.memory.review import list_waiting
from tests.plugins.team.conftest import exchange

pytestmark = pytest.mark.slow
MONDAYS = "staging is rebuilt on Mondays"


async def test_a_note_reaches_a_colleague_with_its_author(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    id = await ada.keep(MONDAYS, who="user")

    await exchange(ada, bob)

    (note,) = bob.notes()
    assert (note.id, note.text, note.who) == (id, MONDAYS, "colleague")
    assert note.source == "ada on adas-laptop"
    (hit,) = await bob.memory.search("when is staging rebuilt", 3)
    assert id in hit.where
    assert bob.lines_with("ada: added") == [f'ada: added to log: "{MONDAYS}"']
    assert ada.lines_with("ada:") == []


async def test_a_colleague_replaces_only_what_the_person_did_not_type(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    by_model = await ada.keep("the port is 5432")
    typed = await ada.keep("the host is alpha", who="user")
    await exchange(ada, bob)
    await bob.edit(by_model, "the port is 6543")
    await bob.edit(typed, "the host is beta")
    await exchange(bob, ada)

    assert bob.texts() == {"the port is 6543", "the host is beta"}
    assert ada.texts() == {"the port is 6543", "the host is alpha", "the host is beta"}
    assert (await team.open("bob", machine="new")).texts() == bob.texts()
    (conflict,) = await list_waiting(ada.memory)
    assert [one.text for one in conflict.statements] == ["the host is alpha", "the host is beta"]


async def test_a_colleagues_note_is_dismissed_only_here(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    id = await ada.keep(MONDAYS)
    other = await ada.keep("deploys go out on Tuesdays")
    await exchange(ada, bob)
    await bob.forget(id)
    await bob.memory.store.undo(bob.memory.store.view().entries[other].change.id)
    await exchange(bob, ada)

    assert bob.texts() == set()
    assert ada.texts() == {MONDAYS, "deploys go out on Tuesdays"}


async def test_the_author_withdraws_undoes_and_restores_a_note_for_all(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    await ada.keep("mine")
    await bob.keep("theirs")
    await exchange(ada, bob)
    undone = await ada.memory.store.undo()
    await exchange(ada, bob)
    without = bob.texts()
    await ada.memory.store.undo(undone.change.id)
    await exchange(ada, bob)

    assert without == {"theirs"}
    assert ada.texts() == bob.texts() == {"mine", "theirs"}
    await ada.forget("mine")
    await exchange(ada, bob)
    assert bob.texts() == {"theirs"}
    await bob.memory.store.undo()
    with pytest.raises(MemoryRefused, match="nothing to undo"):
        await bob.memory.store.undo()


async def test_a_colleagues_rule_is_told_once_with_the_next_message(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    before = await ada.memory.inject("start")
    await bob.keep("never force-push", target="rule")
    await exchange(bob)

    recalled = await ada.memory.recall(Turn(number=1, text="rename the parser"))
    again = await ada.memory.recall(Turn(number=2, text="rename the parser"))

    assert 'New: "never force-push" (a colleague, now)' in recalled
    assert "force-push" not in again
    assert before.system == ""
    assert "never force-push" in (await (await team.open("ada")).memory.inject("start")).system


async def test_private_notes_soul_and_summaries_stay_on_the_machine(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    await ada.keep("her salary", private=True)
    await ada.keep("renamed the parser", target="summary")
    await ada.keep("I am brief.", target="soul", who="user")
    await ada.keep(MONDAYS)
    await exchange(ada, bob)

    assert bob.texts() == {MONDAYS}
    sent = "\n".join(team.rows("SELECT line FROM kode.lines"))
    assert [word for word in ("salary", "parser", "brief", '"session"') if word in sent] == []


async def test_outside_content_is_approved_by_a_second_person(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    ada.sessions.outside = "https://example.org"
    id = await ada.keep("deploys need a token")
    await exchange(ada, bob)
    with pytest.raises(MemoryRefused, match="colleague approves"):
        await ada.memory.store.decide(id, "approve")
    assert bob.texts() == set()

    await bob.memory.store.decide(id, "approve")
    await exchange(bob, ada)

    assert ada.texts() == bob.texts() == {"deploys need a token"}
