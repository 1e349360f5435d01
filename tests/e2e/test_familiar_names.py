"""What people bring from other agents, typed as they know it."""

import json

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer


def test_other_agents_call_names_run_and_go_back_unchanged(
    place: Place, server: ScriptedServer
) -> None:
    (place.project / "a.txt").write_text("one\n")
    replies = [
        {"calls": [{"name": "Read", "arguments": {"file_path": "a.txt"}}]},
        {
            "calls": [
                {
                    "name": "Edit",
                    "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "two"},
                },
                {"name": "Bash", "arguments": {"command": ["cat", "a.txt"], "timeout": 5000}},
            ]
        },
        {"text": "done"},
    ]
    server.play(replies)
    done = place.run("run", "x", "--permission-mode", "auto-edit", "--output-format", "json")
    sent = server.requests[-1].json["messages"]
    assert (place.project / "a.txt").read_text() == "two\n"
    assert (done.json["files_changed"], done.json["denials"]) == (["a.txt"], [])
    calls = [call["function"] for message in sent for call in message.get("tool_calls", ())]
    assert [call["name"] for call in calls] == ["Read", "Edit", "Bash"]
    assert json.loads(calls[1]["arguments"]) == replies[1]["calls"][0]["arguments"]
    assert not any("was not run" in json.dumps(message) for message in sent)


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
