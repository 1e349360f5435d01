"""`--sandbox` from outside, with the installed command."""

import os
import subprocess

import pytest

from tests.e2e.command import Place, needs_a_whole_sandbox
from tests.needs import needs
from tests.scripted_server import ScriptedServer

AUTO_EDIT = ("--permission-mode", "auto-edit")


def test_unknown_commands_run_unasked_and_reach_only_the_project(
    place: Place, server: ScriptedServer
) -> None:
    needs_a_whole_sandbox(place)
    (place.project / "run.sh").write_text(
        "echo in > made\necho out > ~/out\ncat $KODE_HOME/config.json ~/.kode/*\n"
        f"cat {place.home}/config.json\necho x > {place.home}/memory/x\n"
    )
    place.home.mkdir(mode=0o700, exist_ok=True)
    (place.home / "config.json").write_text('{"model": "hidden-model"}')
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": "bash run.sh"}}]},
        {"calls": [{"name": "shell", "arguments": {"command": "curl http://x.test"}}]},
        {"text": "done"},
    ]
    server.play(replies)
    done = place.run("run", "work", "--sandbox", "--permission-mode", "auto-edit")
    told = [str(request.json["messages"][-1]["content"]) for request in server.requests]

    assert done.code == 1, done.err  # something was refused
    assert (place.project / "made").read_text() == "in\n"
    assert not (place.folder / "out").exists()
    assert "hidden-model" not in told[1]
    assert "nobody to ask" in told[2]
    assert not os.path.exists(place.home / "memory" / "x")


@needs("git")
def test_things_that_run_later_stay_in_the_session_unless_asked(
    place: Place, server: ScriptedServer
) -> None:
    needs_a_whole_sandbox(place)
    for command in ("init -q .", "config core.fsmonitor tools/watch"):
        subprocess.run(["git", *command.split()], cwd=place.project, check=True)
    (place.project / ".gitignore").write_text("*.pyc\n.venv/\nnode_modules/\nbuild/\n")
    (place.project / "plant.sh").write_text(
        "mkdir -p __pycache__ .venv/bin node_modules/.bin tools .git/rebase-merge build docs\n"
        "for file in __pycache__/a.cpython-311.pyc .venv/bin/python node_modules/.bin/tsc "
        "tools/watch .git/rebase-merge/git-rebase-todo build/out.js seen.txt; "
        "do echo echo planted > $file; done\n"
    )
    later = "sh .venv/bin/python; sh node_modules/.bin/tsc; cat build/out.js; ls __pycache__"
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": "bash plant.sh"}}]},
        {"calls": [{"name": "shell", "arguments": {"command": later}}]},
        {"text": "done"},
    ]
    allowed = ["--allow", "edit(./build/**)"]
    server.play(replies)
    done = place.run("run", "work", "--sandbox", "--permission-mode", "auto-edit", *allowed)
    told = [str(request.json["messages"][-1]["content"]) for request in server.requests]

    assert done.code == 1, done.err  # something was refused
    found = {str(path.relative_to(place.project)) for path in place.project.rglob("*")}
    in_git = {name for name in found if name.startswith(".git/")}
    assert found - in_git == {
        ".git", ".gitignore", "plant.sh", "seen.txt", "docs", "build", "build/out.js",
    }  # fmt: skip
    assert not [name for name in in_git if "rebase-merge" in name]
    for held in (".venv/**", "node_modules/**", "tools/watch", "git-rebase-todo"):
        assert held in told[1]
    for seen in ("planted\nplanted", "echo planted", "a.cpython-311.pyc"):
        assert seen in told[2]


@needs("git")
def test_ignored_folders_are_kept_after_one_yes_and_undone(
    place: Place, server: ScriptedServer
) -> None:
    needs_a_whole_sandbox(place)
    subprocess.run(["git", "init", "-q", "."], cwd=place.project, check=True)
    (place.project / ".gitignore").write_text("node_modules/\n")
    install = "mkdir -p node_modules/a/empty && echo 1 > node_modules/a/x.js && mkdir empty"
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": install}}]},
        {"calls": [{"name": "shell", "arguments": {"command": "echo 2 > node_modules/y.js"}}]},
        {"text": "installed"},
    ]
    arguments = ["--sandbox", "--permission-mode", "auto-edit"]
    server.play(replies)
    with place.terminal(*arguments) as terminal:
        terminal.until("auto-edit")
        terminal.type("install it", "enter")
        terminal.until("node_modules", "n  no")
        terminal.type("a1", "enter")
        terminal.until("installed")
        folder = place.project / "node_modules"
        assert [(folder / name).read_text() for name in ("a/x.js", "y.js")] == ["1\n", "2\n"]
        assert (place.project / "empty").is_dir()
        terminal.type("/undo", "enter")
        terminal.until("emoved")
        terminal.type("exit", "enter")
        assert terminal.ended() == 0
    assert sorted(path.name for path in place.project.iterdir()) == [".git", ".gitignore"]


@pytest.mark.parametrize("last", ["touch /tmp/ready; sleep 60", "touch /tmp/ready"])
def test_a_run_tells_what_became_of_background_changes(
    place: Place, server: ScriptedServer, last: str
) -> None:
    needs_a_whole_sandbox(place)
    command = f"echo 1 > log.txt; mkdir node_modules; echo > node_modules/x; {last}"
    waits = "until [ -e /tmp/ready ]; do sleep 0.02; done"
    replies = [
        {
            "calls": [
                {"name": "shell", "arguments": {"command": command, "background": True}},
                {"name": "shell", "arguments": {"command": waits}},
            ]
        },
        {"text": "Done."},
    ]
    server.play(replies)
    done = place.run("run", "x", *AUTO_EDIT, "--output-format", "json")

    assert (done.code, done.json["status"]) == (1, "incomplete")
    assert done.json["files_changed"] == ["log.txt"]
    assert ["node_modules/" in one["reason"] for one in done.json["refused"]] == [True]
