"""What people bring from other agents, typed as they know it."""

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer


@pytest.mark.parametrize("words", [["-r"], ["--resume"]])
def test_resuming_without_an_id_opens_a_menu_of_sessions(
    place: Place, server: ScriptedServer, words: list[str]
) -> None:
    server.play([{"text": "first"}, {"text": "second"}])
    place.run("run", "the older task")
    place.run("run", "the newer task")
    with place.terminal(*words) as terminal:
        text = terminal.until("› today", "the older task", "type to search")
        assert text.index("the newer task") < text.index("the older task")
        terminal.type("older")
        terminal.until_gone("the newer task")
        terminal.type("enter")
        terminal.until("Resumed", "> the older task", "first")
        terminal.type("exit", "enter")
        assert terminal.ended() == 0
