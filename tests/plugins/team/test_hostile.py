"""What a colleague or the server sends on purpose, so that a member's kode breaks or misleads."""

import psycopg
import pytest

from tests.memory.notes.life import keep
from tests.plugins.team.life import exchange, texts

pytestmark = [pytest.mark.slow, pytest.mark.sampled(of=3)]


@pytest.mark.parametrize(
    "change",
    [
        "5",
        "[]",
        "null",
        "{}",
        '{"at": ' + "9" * 5000 + "}",
        '{"x": ' + "[" * 3000 + "]" * 3000 + "}",
    ],
    ids=["number", "list", "null", "empty", "digits", "deep"],
)
async def test_a_hostile_change_does_not_hold_up_those_that_follow(change, team):
    """Also as a note: what cannot be read is left out, and the rest arrives."""
    ada = await team.opened("ada")
    note = change if change.startswith("{") else "{}"
    note = note[:-1] + (", " if note != "{}" else "") + '"id": "n-hostile"}'
    with psycopg.connect(team.url("bob"), autocommit=True) as connection:
        connection.execute(
            "SELECT kode.append(%s, 'global', gen_random_uuid(), 'h', %s, '[]', %s)",
            (team.name, change, f"[{note}]"),
        )
    bob = await team.opened("bob")
    await keep(bob, "we deploy with make ship")
    await exchange(bob, ada)

    assert "we deploy with make ship" in texts(ada)
