"""A plug-in at fault costs a line on the screen, and never the session."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode import installed
from kode.errors import PluginError
from kode.events import TurnStarted
from kode.installed import Command, Plugin
from kode.permissions.question import Answer
from kode.registry import plugin_rows
from tests.conversation.conftest import notices


def clashing(_: Any) -> list[Any]:
    def read_file(path: str) -> str:
        """Another tool of that name."""
        return path

    def own_tool() -> str:
        """One of its own."""
        return "yes"

    return [read_file, own_tool]


class Failing:
    """A subscriber that raises at its first event."""

    heard = 0

    def __init__(self, opened: Any) -> None:
        pass

    def __call__(self, event: Any) -> None:
        if isinstance(event, TurnStarted):
            Failing.heard += 1
            raise ValueError("no")


def broken(*_: Any) -> Any:
    """Anything that a plug-in adds and that raises by mistake."""
    raise KeyError("nothing")


async def broken_later(*_: Any) -> Any:
    broken()


async def taking(opened: Any, argument: str) -> str:
    """A slash command that keeps a note."""
    opened.record({"note": argument})
    return "kept"


HERE = f"{__name__}:"
FAULTY = {
    "rows that raise": Plugin(name="faulty", summary="", providers="nowhere.at.all:ROWS"),
    "sections that raise": Plugin(name="faulty", summary="", sections=f"{HERE}broken"),
    "a missing module": Plugin(name="faulty", summary="", tools="nowhere.at.all:tools"),
    "sections of another kind": Plugin(name="faulty", summary="", sections=f"{HERE}clashing"),
    "settings that are no model": Plugin(
        name="faulty", summary="", settings=f"{HERE}clashing", tools=f"{HERE}clashing"
    ),
    "a name of kode's own tool": Plugin(name="faulty", summary="", tools=f"{HERE}clashing"),
    "a subscriber that raises": Plugin(name="faulty", summary="", subscriber=f"{HERE}Failing"),
}


Use = Callable[[Plugin], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Makes a plug-in of others the only one there is."""

    def only(plugin: Plugin) -> None:
        monkeypatch.setattr(installed, "faults", {})
        monkeypatch.setattr(installed, "find_plugins", lambda: ())
        monkeypatch.setattr(installed, "enabled_plugins", lambda: (plugin,))

    return only


@pytest.mark.parametrize("plugin", FAULTY.values(), ids=FAULTY)
async def test_a_plugin_at_fault_costs_one_line(
    opened: Any, events: list[Any], use: Use, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "heard", 0)
    use(plugin)
    list(plugin_rows())
    talk = await opened({"text": "Fine."}, {"text": "Fine."})

    assert (await talk.turn("one")).status == "success"
    assert (await talk.turn("two")).status == "success"

    assert Failing.heard == bool(plugin.subscriber)
    [notice] = notices(events)
    clashes = "its name is taken" in notice
    assert notice.count("kode plugin disable faulty") == (not clashes)
    names = [tool.name for tool in talk.agent.tools]
    assert (names.count("read_file"), names.count("own_tool")) == (1, clashes)


def test_a_plugin_with_the_name_of_another_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from kode.plugin import Command, Plugin\n"
        "commands = {'fleet': Command(run=print, summary='')}\n"
        "PLUGIN = Plugin(name='mine', summary='', commands=commands)\n"
    )
    monkeypatch.setenv(installed.FILES, str(file))

    [mine] = [plugin for plugin in installed.find_plugins() if plugin.name == "mine"]

    assert mine.plugin is None
    assert "fleet" in mine.fault
    assert "off" in mine.fault


async def test_a_plugin_may_hear_nothing(opened: Any, events: list[Any], use: Use) -> None:
    plugin = Plugin(name="deaf", summary="", subscriber=f"{HERE}nobody")
    use(plugin)
    talk = await opened({"text": "Fine."})

    assert (await talk.turn("one")).status == "success"
    assert talk.plugins.subscribers == []
    assert notices(events) == []


def nobody(opened: Any) -> None:
    """A subscriber's function where there is nothing to hear; it sees the conversation's config."""
    assert opened.config.max_steps > 0


@pytest.mark.parametrize("name", ["broken", "broken_later"])
async def test_a_failing_slash_command_is_its_plugins_fault(
    opened: Any, use: Use, name: str
) -> None:
    command = Command(run=f"{HERE}{name}", summary="")
    use(Plugin(name="faulty", summary="", slash={"go": command}))
    talk = await opened({"text": "Fine."})

    with pytest.raises(PluginError, match="faulty"):
        await talk.turn("/go")
    assert (await talk.turn("one")).status == "success"


async def test_a_record_before_the_first_turn_is_kept(opened: Any, use: Use) -> None:
    plugin = Plugin(
        name="standup", summary="", slash={"note": Command(run=f"{HERE}taking", summary="")}
    )
    use(plugin)
    talk = await opened()
    await talk.turn("/note one")
    session_id = talk.session.id
    await talk.close()

    again = await opened(session_id=session_id)
    [seen] = again.plugins.opened
    assert seen.records() == [{"note": "one"}]


def refusing(opened: Any, call: Any) -> Any:
    """Lets nothing be written into a.txt, by a command neither."""
    is_about = call.path.endswith("/a.txt") or "a.txt" in str(call.arguments.get("command"))
    return opened.refuse("a.txt stays as it is.") if is_about else None


async def asking(opened: Any, call: Any) -> Any:
    """Asks before every change."""
    return opened.ask("Every change counts.") if call.effect == "edit" else None


def changing(opened: Any, call: Any) -> Any:
    """Writes all in capitals, into b.txt."""
    if call.tool.name != "write_file":
        return None
    return opened.change(call, {"path": "b.txt", "content": call.arguments["content"].upper()})


def confused(opened: Any, call: Any) -> Any:
    """Returns what is no decision."""
    return True


WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "hello\n"}}


class Person:
    """Answers with one choice, and counts the questions."""

    def __init__(self, choice: str = "once") -> None:
        self.choice, self.questions = choice, list[Any]()

    async def __call__(self, question: Any) -> Any:
        self.questions.append(question)
        return Answer(choice=self.choice)  # type: ignore[arg-type]


def deciding(function: str) -> Plugin:
    return Plugin(name="guard", summary="", before_call=f"{HERE}{function}")


@pytest.mark.parametrize("function", ["refusing", "broken", "broken_later", "confused"])
async def test_a_call_that_a_plugin_refuses_does_not_run(
    opened: Any, use: Use, tmp_path: Path, function: str
) -> None:
    use(deciding(function))
    person = Person()
    talk = await opened({"calls": [WRITE]}, {"text": "No."}, mode="full", ask=person)

    ended = await talk.turn("write")

    [denial] = ended.denials
    assert "The plug-in guard" in denial.reason
    assert not (tmp_path / "project/a.txt").exists()
    assert person.questions == []


@pytest.mark.parametrize("choice", ["once", "no", None])
async def test_a_plugin_has_the_person_asked(
    opened: Any, use: Use, project: Path, choice: str | None
) -> None:
    use(deciding("asking"))
    person = Person(choice) if choice else None
    talk = await opened({"calls": [WRITE]}, {"text": "Fine."}, mode="full", ask=person)

    ended = await talk.turn("write")

    reason = "The plug-in guard: Every change counts."
    assert [question.reason for question in getattr(person, "questions", [])] == [reason] * bool(
        choice
    )
    assert [reason in denial.reason for denial in ended.denials] == [not choice] * (
        choice != "once"
    )
    assert (project / "a.txt").exists() is (choice == "once")


async def test_permissions_are_decided_for_the_changed_call(
    opened: Any, use: Use, tmp_path: Path
) -> None:
    use(deciding("changing"))
    talk = await opened({"calls": [WRITE]}, {"text": "Done."}, permissions__deny=["edit(a.txt)"])

    ended = await talk.turn("write")

    assert ended.denials == ()
    assert (tmp_path / "project/b.txt").read_text() == "HELLO\n"
    [_, _, result, *_] = talk.session.messages
    assert "The plug-in guard changed this call" in result.parts[0].text


async def test_no_other_plugin_takes_back_what_one_asks(
    opened: Any, use: Use, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(deciding("asking"))
    guards = (deciding("asking"), replace(deciding("changing"), name="writer"))
    monkeypatch.setattr(installed, "enabled_plugins", lambda: guards)
    talk = await opened({"calls": [WRITE]}, {"text": "No."}, mode="full")

    assert (await talk.turn("write")).denials
    assert list((tmp_path / "project").glob("*.txt")) == []
