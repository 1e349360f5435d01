"""A plug-in at fault costs a line on the screen, and never the session."""

from typing import Any

import pytest

from kode import installed
from kode.events import Notice, TurnStarted
from kode.installed import Plugin


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


HERE = f"{__name__}:"
FAULTY = {
    "a missing module": Plugin(name="faulty", summary="", tools="nowhere.at.all:tools"),
    "sections of another kind": Plugin(name="faulty", summary="", sections=f"{HERE}clashing"),
    "settings that are no model": Plugin(
        name="faulty", summary="", settings=f"{HERE}clashing", tools=f"{HERE}clashing"
    ),
    "a name of kode's own tool": Plugin(name="faulty", summary="", tools=f"{HERE}clashing"),
    "a subscriber that raises": Plugin(name="faulty", summary="", subscriber=f"{HERE}Failing"),
}


@pytest.mark.parametrize("plugin", FAULTY.values(), ids=FAULTY)
async def test_a_plugin_at_fault_costs_one_line(
    opened: Any, events: list[Any], monkeypatch: pytest.MonkeyPatch, plugin: Plugin
) -> None:
    monkeypatch.setattr(installed, "installed", lambda: ())
    monkeypatch.setattr(installed, "plugins", lambda: (plugin,))
    talk = await opened({"text": "Fine."}, {"text": "Fine."})

    assert (await talk.turn("one")).status == "success"
    assert (await talk.turn("two")).status == "success"

    assert sum(isinstance(event, Notice) for event in events) == 1


async def test_other_tools_of_a_plugin_with_a_clash_stay(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "installed", lambda: ())
    monkeypatch.setattr(installed, "plugins", lambda: (FAULTY["a name of kode's own tool"],))
    talk = await opened({"text": "Fine."})
    await talk.turn("one")

    names = [tool.name for tool in talk.agent.tools]
    assert (names.count("read_file"), names.count("own_tool")) == (1, 1)


async def test_a_subscriber_hears_nothing_after_its_fault(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "heard", 0)
    monkeypatch.setattr(installed, "installed", lambda: ())
    monkeypatch.setattr(installed, "plugins", lambda: (FAULTY["a subscriber that raises"],))
    talk = await opened({"text": "Fine."}, {"text": "Fine."})
    await talk.turn("one")
    await talk.turn("two")

    assert Failing.heard == 1


async def test_a_plugin_may_hear_nothing(
    opened: Any, events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Plugin(name="deaf", summary="", subscriber=f"{HERE}nobody")
    monkeypatch.setattr(installed, "installed", lambda: ())
    monkeypatch.setattr(installed, "plugins", lambda: (plugin,))
    talk = await opened({"text": "Fine."})

    assert (await talk.turn("one")).status == "success"
    assert talk.plugged.heard == ()
    assert not any(isinstance(event, Notice) for event in events)


def nobody(opened: Any) -> None:
    """A subscriber's function where there is nothing to hear; it sees the conversation's config."""
    assert opened.config.sessions.share is False
