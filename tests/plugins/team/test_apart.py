"""Lines of another team, and of a project that is not theirs, are never seen: whatever is asked."""

import json
from pathlib import Path

import psycopg
import pytest

from kode.errors import MemoryRefused
from kode.plugins.team.server import TeamLog, manage_team
from tests.plugins.team.conftest import ALONE, exchange

pytestmark = pytest.mark.slow

STATEMENTS = [
    json.loads(line)["sql"]
    for line in (Path(__file__).parent / "data" / "other_team.jsonl").read_text().splitlines()
]


def answers_to(url: str, statement: str) -> list[str]:
    """All that a statement answers, notices and faults too."""
    answers: list[str] = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: answers.append(notice.message_primary or ""))
        try:
            if statement.startswith("COPY"):
                with connection.cursor().copy(statement.encode()) as rows:
                    return [*answers, *(bytes(row).decode() for row in rows)]
            for cursor in connection.execute(statement.encode()).results():
                answers += map(str, cursor.fetchall() if cursor.description else ())
        except psycopg.Error as error:
            answers.append(str(error))
    return answers


def repository(root: Path, name: str) -> Path:
    (root / name / ".git").mkdir(parents=True)
    text = f'[remote "origin"]\n\turl = git@example.org:{name}.git\n'
    (root / name / ".git" / "config").write_text(text)
    return root / name


async def test_no_statement_shows_a_line_of_another_team(team):
    await team.admit("eve", scope="other")
    await team.admit("eve", name="rivals")
    ada, eve = await team.open("ada"), await team.open("eve", name="rivals")
    id = await ada.keep("the zebra stands in the cellar")
    await eve.keep("what the rivals know")
    await exchange(ada, eve)

    shown = [
        (statement, answer)
        for statement in STATEMENTS
        for answer in answers_to(team.url("eve"), statement)
        if any(mark in answer for mark in ("cellar", "adas-", id))
    ]
    assert shown == []
    assert id in str(answers_to(team.url("ada"), "SELECT 1; TABLE kode.lines"))
    assert len(STATEMENTS) >= 50
    assert eve.texts() == {"what the rivals know"}
    lines = team.rows("SELECT team || line FROM kode.lines ORDER BY team, seq")
    assert ["planted" in line for line in lines] == [False] * len(lines)
    assert [line for line in lines if "cellar" in line and line.startswith("rivals")] == []


async def test_notes_of_one_team_never_get_into_another(team):
    await team.admit("ada", "bob", name="rivals")
    await (await team.open("ada", name=ALONE)).keep("hers")
    ada = await team.open("ada")
    await ada.keep("of platform")
    await exchange(ada)
    other = await team.open("ada", name="rivals")
    await other.keep("of rivals")
    await exchange(other)

    assert other.texts() == {"hers", "of rivals"}
    assert (await team.open("ada")).texts() == {"hers", "of platform"}
    assert (await team.open("bob", name="rivals")).texts() == {"of rivals"}


async def test_a_member_of_one_project_sees_only_that_project(team):
    await team.admit("eve", scope="example.org/api")
    for name in ("api", "web"):
        ada = await team.open("ada", project=repository(team.root / "ada", name))
        await ada.keep(f"of {name}", scope="project")
        await exchange(ada)
    await ada.keep("of all the team")
    await exchange(ada)

    places = {name: repository(team.root / "elsewhere", name) for name in ("api", "web")}
    assert (await team.open("eve", project=places["web"])).texts() == set()
    assert (await team.open("bob", project=places["web"])).texts() == {"of web", "of all the team"}
    eve = await team.open("eve", project=places["api"])
    assert eve.texts() == {"of api"}
    await eve.keep("by eve for all")
    await exchange(eve)
    assert len(eve.lines_with("on this machine")) == 1
    assert "by eve for all" not in (await team.open("bob")).texts()
    await team.admit("eve")
    await exchange(eve)
    assert "by eve for all" in (await team.open("bob")).texts()


async def test_a_dismissed_member_keeps_only_their_own_notes(team):
    ada, bob = await team.open("ada"), await team.open("bob")
    await ada.keep("the zebra stands in the cellar")
    await exchange(ada, bob)
    owner = TeamLog(team.url("owner"), "platform", "h")
    text = await manage_team(owner, "dismiss", "bob")
    await bob.keep("written after that")
    await exchange(bob)

    assert "bob sees all of" in text
    assert bob.texts() == {"written after that"}
    assert bob.lines_with("member of platform")
    await team.admit("bob")
    await exchange(bob)
    assert bob.texts() == {"the zebra stands in the cellar", "written after that"}


async def test_a_database_without_tables_says_who_makes_them(team):
    team.server.make_database(f"{team.database}-empty")
    empty = TeamLog(team.server.url("ada", f"{team.database}-empty"), "platform", "h")

    with pytest.raises(MemoryRefused, match="kode memory team init"):
        await manage_team(empty, None, None)


async def test_the_lines_only_grow_even_for_who_owns_them(team):
    ada = await team.open("ada")
    await ada.keep("the zebra stands in the cellar")
    await exchange(ada)

    for statement in ("UPDATE kode.lines SET person = 'bob'", "DELETE FROM kode.lines"):
        with pytest.raises(psycopg.errors.RaiseException, match="only grow"):
            team.rows(statement)
