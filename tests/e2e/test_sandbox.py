"""`--sandbox` from outside, with the installed command."""

import json
import os

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

pytestmark = pytest.mark.e2e


def kind(place: Place) -> str:
    findings = json.loads(place.run("doctor", "--json").out)
    return next(found["detail"] for found in findings if found["what"] == "sandbox")


def test_what_is_unknown_runs_unasked_and_reaches_the_project_only(place: Place) -> None:
    if not kind(place).startswith("bubblewrap"):
        pytest.skip(f"needs bubblewrap: {kind(place)}")
    (place.project / "run.sh").write_text(
        "echo in > made\necho out > ~/out\ncat $KODE_HOME/config.json ~/.kode/*\n"
        f"cat {place.home}/config.json\necho x > {place.home}/memory/x\n"
    )
    place.home.mkdir(mode=0o700)
    (place.home / "config.json").write_text('{"model": "hidden-model"}')
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": "bash run.sh"}}]},
        {"calls": [{"name": "shell", "arguments": {"command": "curl http://x.test"}}]},
        {"text": "done"},
    ]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "work", "--sandbox")
        told = [str(request.json["messages"][-1]["content"]) for request in server.requests]

    assert done.code == 0, done.err
    assert (place.project / "made").read_text() == "in\n"
    assert not (place.folder / "out").exists()
    assert "hidden-model" not in told[1]
    assert "nobody is here" in told[2]
    assert not os.path.exists(place.home / "memory" / "x")


def test_without_the_flag_the_same_command_is_asked_about(place: Place) -> None:
    (place.project / "run.sh").write_text("echo in > made\n")
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": "bash run.sh"}}]},
        {"text": "done"},
    ]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        assert place.run("run", "work").code == 0
    assert not (place.project / "made").exists()


def test_a_project_cannot_turn_the_sandbox_off(place: Place) -> None:
    place.home.mkdir(mode=0o700)
    (place.home / "config.json").write_text('{"sandbox": {"enabled": true}}')
    (place.project / "kode.json").write_text('{"sandbox": {"enabled": false, "network": true}}')

    shown = place.run("config", "show")

    lines = {line.split()[0]: line for line in shown.out.splitlines() if line.strip()}
    assert "true" in lines["sandbox.enabled"]
    assert "false" in lines["sandbox.network"]
    assert "sandbox.enabled" in shown.err + shown.out
