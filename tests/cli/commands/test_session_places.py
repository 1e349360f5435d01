"""Sessions that plug-ins list from other places: flags, the list, and an id that is not here."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kode import installed, paths
from kode.cli.commands import session
from kode.contracts import ListedSession
from kode.errors import ConfigError, MemoryRefused, SessionError
from kode.installed import Plugin
from tests.cli.commands.answers import run
from tests.session.stories import new_session, plain_turn

ID = "20260101-000000-aaaaaa"
ONE = ListedSession(
    id=ID,
    person="ada",
    host="laptop",
    project="example.org/api",
    cwd="/srv/api",
    task="fix the parser",
    model="m",
    provider="p",
    turns=2,
    tokens=10,
    cost_usd=None,
    created_at="2026-01-01T00:00:00Z",
    updated_at="2026-01-01T00:00:00Z",
)


class Crew:
    """A place that lists one session."""

    about = "of the crew"
    is_set_up = True
    fails = False

    def __init__(self) -> None:
        self.asked = self.deletions = 0

    def sessions(
        self,
        *,
        project: Path | None = None,
        begins: str = "",
        words: Sequence[str] = (),
        most: int | None = None,
    ) -> list[ListedSession]:
        self.asked += 1
        if self.fails:
            raise MemoryRefused("it is away")
        fits = ONE.id.startswith(begins) and all(word in ONE.task for word in words)
        return [ONE] if fits else []

    def nothing(self, *, filtered: bool) -> str:
        return "nothing of that kind" if filtered else "nothing"

    def deleted(self) -> None:
        self.deletions += 1
        if self.fails:
            raise MemoryRefused("it is away")


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Crew:
    made = Crew()
    plugin = Plugin(name="crew", summary="", sessions={"crew": "somewhere:CREW"})
    monkeypatch.setattr(installed, "plugins", lambda: (plugin,))
    monkeypatch.setattr(installed, "load", lambda plugin, where: made)
    return made


def test_a_flag_of_its_name_lists_a_places_sessions(
    crew: Crew, capsys: pytest.CaptureFixture[str]
) -> None:
    run(session, ["list", "--crew", "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    run(session, ["search", "lexer", "--crew"])

    assert (found["id"], found["person"]) == (ID, "ada")
    assert capsys.readouterr().out == "nothing of that kind\n"


def test_no_plugin_adds_no_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "plugins", lambda: ())

    with pytest.raises(ConfigError):
        run(session, ["list", "--crew"])


def test_an_id_that_is_elsewhere_is_named_with_its_machine(crew: Crew) -> None:
    with pytest.raises(SessionError, match=f"{ID} is on laptop"):
        run(session, ["show", ID[:12]])


def test_a_place_that_fails_is_named_for_an_unknown_id(crew: Crew) -> None:
    crew.fails = True

    with pytest.raises(SessionError, match="the crew could not be asked: it is away"):
        run(session, ["show", ID])


def test_a_place_that_is_not_set_up_is_not_asked(crew: Crew) -> None:
    crew.is_set_up = False

    with pytest.raises(SessionError):
        run(session, ["show", ID])
    assert crew.asked == 0


@pytest.mark.parametrize("fails", [False, True])
def test_a_deletion_is_passed_on_and_never_fails(crew: Crew, fails: bool) -> None:
    crew.fails = fails
    opened = new_session(paths.home())
    plain_turn(opened, "one")
    opened.close()

    assert run(session, ["delete", str(opened.id)]) == 0
    assert crew.deletions == 1
