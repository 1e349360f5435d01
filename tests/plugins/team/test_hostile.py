"""What a colleague or the server sends on purpose, so that a member's kode breaks or misleads."""

import json
from pathlib import Path

import psycopg
import pytest

from kode import paths
from kode.cli.main import main
from kode.errors import MemoryRefused
from tests.memory.notes.life import keep
from tests.plugins.team.life import Team, exchange, texts

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data"
ID = "20260101-000000-aaaaaa"
GOOD = {
    "id": ID,
    "task": "task",
    "cwd": "/srv",
    "project": "example.org/api",
    "model": "m",
    "provider": "p",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
    "turns": 1,
    "tokens": 1,
    "cost_usd": 0.1,
}
HOSTILE = [json.loads(line) for line in (DATA / "hostile_lines.jsonl").read_text().splitlines()]


def share(team: Team, person: str, line: str) -> None:
    """Stores a line as a program other than kode may send it."""
    with psycopg.connect(team.url(person), autocommit=True) as connection:
        connection.execute(
            "SELECT kode.share_sessions(%s, gen_random_uuid(), 'host', %s)",
            (team.name, f"[{line}]"),
        )


def line_of(case: dict[str, str]) -> str:
    """JSON of a line with one value as given; a value in `times` is repeated."""
    value = case["json"]
    for part, count in case.get("times", {}).items():
        value = value.replace(part, part * int(count), 1)
    rest = {name: given for name, given in GOOD.items() if name != case["key"]}
    return json.dumps(rest)[:-1] + f', "{case["key"]}": {value}}}'


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case["what"])
def test_a_hostile_line_breaks_neither_the_list_nor_the_terminal(
    case, machine, team, monkeypatch, capsys
):
    ada = machine("ada")
    share(team, "bob", line_of(case))
    ada.work("of ada")
    ada.send()
    notes = {"url": ada.address.url, "team": ada.name, "host": ada.host}
    settings = {"memory": {"notes": notes}, "sessions": {"share": True}}
    paths.config_file(ada.home).write_text(json.dumps(settings))
    monkeypatch.setenv("KODE_HOME", str(ada.home))
    monkeypatch.chdir(ada.project("api"))

    assert "of ada" in ada.sees()
    for argv in (["list", "--team"], ["list", "--team", "--all", "--json"], ["show", ID]):
        code = main(["session", *argv])
        out, err = capsys.readouterr()
        assert "internal error" not in err, err
        assert code == (3 if argv[0] == "show" else 0), err
        assert len(out) + len(err) < 20_000
        if "--json" not in argv:
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out + err)
        if argv == ["list", "--team"]:
            assert out.count("\n") <= 3


def test_a_line_from_the_future_does_not_lead_the_list(machine, team):
    ada = machine("ada")
    share(team, "bob", json.dumps(GOOD | {"updated_at": "9999-01-01T00:00:00Z"}))

    ada.work("of ada")
    ada.send()

    assert ada.sees() == ["of ada", "task"]


def test_words_that_are_no_text_are_refused_with_advice(machine):
    with pytest.raises(MemoryRefused, match="UTF-8"):
        machine("ada").sees(words=["\udcff"])


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
