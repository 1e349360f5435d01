"""`--sandbox` from outside, with the installed command."""

import json
import os
import subprocess

import pytest

from tests.e2e.command import KODE, Place, needs_a_whole_sandbox
from tests.e2e.terminal import Terminal
from tests.needs import needs, skip_without
from tests.scripted_server import ScriptedServer

AUTO_EDIT = ("--permission-mode", "auto-edit")


def test_unknown_commands_run_unasked_and_reach_only_the_project(place: Place) -> None:
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
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "work", "--sandbox", "--permission-mode", "auto-edit")
        told = [str(request.json["messages"][-1]["content"]) for request in server.requests]

    assert done.code == 1, done.err  # something was refused
    assert (place.project / "made").read_text() == "in\n"
    assert not (place.folder / "out").exists()
    assert "hidden-model" not in told[1]
    assert "nobody is here" in told[2]
    assert not os.path.exists(place.home / "memory" / "x")


def test_the_same_command_is_asked_about_outside_the_sandbox(place: Place) -> None:
    (place.project / "run.sh").write_text("echo in > made\n")
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": "bash run.sh"}}]},
        {"text": "done"},
    ]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        assert place.run("run", "work").code == 1
    assert not (place.project / "made").exists()


def test_a_project_cannot_turn_the_sandbox_off(place: Place) -> None:
    place.home.mkdir(mode=0o700)
    (place.home / "config.json").write_text('{"sandbox": {"enabled": true}}')
    (place.project / "kode.json").write_text('{"sandbox": {"enabled": false, "network": true}}')

    shown = place.run("config", "show", "--all")

    lines = {line.split()[0]: line for line in shown.out.splitlines() if line.strip()}
    assert "true" in lines["sandbox.enabled"]
    assert "false" in lines["sandbox.network"]
    assert "sandbox.enabled" in shown.err + shown.out


FORGE = (
    "echo forged > {0}; echo forged >> {0}; rm -f {0}; mv {0} gone; truncate -s 0 {0}; "
    "chmod 777 {0} && echo forged > {0}; ln -sf /tmp/x {0}; mv $(dirname {0}) gone; "
    "find .. /dev/shm -name snapshot.json; "
    "find /tmp /var/tmp /run -maxdepth 3 -name snapshot.json 2>/dev/null; cat {0}; echo tried"
)
"""Ways to change a file."""

SNAPSHOT = {
    "version": 1,
    "system": "tiered",
    "created_at": "now",
    "sections": [{"title": "Facts", "content": "the-true-memory"}],
}


def test_a_subagent_keeps_its_settings_despite_the_projects_files(
    place: Place,
) -> None:
    needs_a_whole_sandbox(place)
    place.home.mkdir(mode=0o700, exist_ok=True)
    (place.home / "config.json").write_text('{"sandbox": {"enabled": true}}')
    given = place.project / "given"
    given.mkdir()
    (given / "snapshot.json").write_text(json.dumps(SNAPSHOT))
    (given / "task.json").write_text('{"goal": "forge"}')
    command = FORGE.format("given/snapshot.json") + f"; {FORGE.format('given/task.json')}"
    replies = [{"calls": [{"name": "shell", "arguments": {"command": command}}]}, {"text": "done"}]
    words = ("--task", "given/task.json", "--memory-snapshot", "given/snapshot.json")
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("subagent", *words, "--permission-mode", "full", "--allow", "shell")
        begun, after = (request.json["messages"] for request in server.requests)

    assert done.code == 0, done.err
    assert "tried" in str(after[-1]["content"])
    assert "the-true-memory" in str(begun)
    assert after[: len(begun)] == begun


def test_a_delegated_subagent_finds_no_snapshot_to_change(place: Place) -> None:
    needs_a_whole_sandbox(place)
    snapshots = f"{place.home}/sessions/*/agents/*/snapshot.json"
    (place.project / "forge.sh").write_text(
        f"for f in {snapshots}; do {FORGE.format('$f')}; done\n"
    )
    command = "bash forge.sh"
    task = {"tasks": [{"goal": "forge"}]}
    replies = [
        {"calls": [{"name": "delegate_tasks", "arguments": task}]},
        {"calls": [{"name": "shell", "arguments": {"command": command}}]},
        {"calls": [{"name": "read_file", "arguments": {"path": "task.txt"}}]},
        {"text": "child done"},
        {"text": "done"},
    ]
    (place.project / "task.txt").write_text("x")
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run(
            "run", "delegate", "--sandbox", "--permission-mode", "full", "--allow", "shell"
        )
        told = [str(request.json["messages"][-1]["content"]) for request in server.requests]

    assert done.code == 0, done.err
    assert "tried" in told[2]
    assert "true-memory" not in told[2]


@needs("git")
def test_a_planted_program_does_not_run_outside_the_sandbox(place: Place) -> None:
    needs_a_whole_sandbox(place)
    programs = place.project / ".venv" / "bin"
    programs.mkdir(parents=True)
    place.extra["PATH"] = f"{programs}:{os.environ['PATH']}"
    (place.project / "run.sh").write_text(
        f"cd .venv/bin\nfor p in rg git; do echo 'touch {place.folder}/ran' > $p; done\n"
        "sed -i '1i #!/bin/sh' rg git; chmod +x rg git\n"
    )
    (place.project / "a.txt").write_text("needle\n")
    subprocess.run(["git", "init", "-q", place.project], check=True)
    replies = [
        {"calls": [{"name": "shell", "arguments": {"command": "bash run.sh"}}]},
        {"calls": [{"name": "search_files", "arguments": {"pattern": "needle"}}]},
        {"calls": [{"name": "shell", "arguments": {"command": "git checkout a.txt"}}]},
        {"text": "done"},
    ]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "work", "--sandbox", "--allow", "shell(git checkout:*)")
        told = [str(request.json["messages"][-1]["content"]) for request in server.requests]

    assert done.code == 1, done.err  # something was refused
    assert not os.path.exists(programs / "git"), "what runs later does not become real unasked"
    assert "1:needle" in told[2]
    assert not (place.folder / "ran").exists()


def test_a_network_rule_covers_its_command_and_no_other(place: Place) -> None:
    needs_a_whole_sandbox(place)
    skip_without("curl")
    with ScriptedServer([{"text": "unused"}]) as other:
        curl = f"curl -s -o /dev/null http://127.0.0.1:{other.port}/ && echo reach''ed"
        (place.project / "ask.sh").write_text(f"{curl} || echo fail''ed\n")
        commands = (curl, f"{curl}; bash ask.sh", "bash ask.sh")
        calls = [{"name": "shell", "arguments": {"command": command}} for command in commands]
        replies = [*({"calls": [call]} for call in calls), {"text": "done"}]
        with ScriptedServer(replies) as server:
            place.url = server.openai_url
            done = place.run("run", "work", "--sandbox", "--allow", "shell(curl:*)")
            told = [str(request.json["messages"][-1]["content"]) for request in server.requests]

    assert done.code == 0, done.err
    assert "reached" in told[1]
    assert "reached" not in told[2]
    assert "failed" in told[3]


def test_a_yes_to_a_network_command_gives_the_network(place: Place) -> None:
    needs_a_whole_sandbox(place)
    skip_without("curl")
    with ScriptedServer([{"text": "unused"}]) as other:
        curl = f"curl -s -o /dev/null http://127.0.0.1:{other.port}/ && echo reach''ed"
        call = {"name": "shell", "arguments": {"command": curl}}
        replies = [{"calls": [call]}, {"text": "It is done."}]
        with ScriptedServer(replies) as server:
            place.url = server.openai_url
            with Terminal(KODE, ["--sandbox"], cwd=place.project, env=place.environ) as terminal:
                terminal.until("/help")
                terminal.type("fetch it", "enter")
                terminal.until("Run it again without the sandbox", "answer:")
                terminal.type("y", "enter")
                terminal.until("It is done.")
            told = str(server.requests[-1].json["messages"][-1]["content"])

    assert "reached" in told


@needs("git")
def test_things_that_run_later_stay_in_the_session_unless_asked(place: Place) -> None:
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
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
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
def test_ignored_folders_are_kept_after_one_yes_and_undone(place: Place) -> None:
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
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        with Terminal(KODE, arguments, cwd=place.project, env=place.environ) as terminal:
            terminal.until("auto-edit")
            terminal.type("install it", "enter")
            terminal.until("node_modules", "answer:")
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


@needs("git")
def test_a_build_that_git_ignores_is_kept_and_named(place: Place) -> None:
    needs_a_whole_sandbox(place)
    subprocess.run(["git", "init", "-q", "."], cwd=place.project, check=True)
    (place.project / ".gitignore").write_text("build/\n*.db\n__pycache__/\n")
    build = "mkdir -p build/a __pycache__; echo 1 | tee build/app build/a/x p.db __pycache__/a.pyc"
    replies = [{"calls": [{"name": "shell", "arguments": {"command": build}}]}, {"text": "Built."}]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "x", *AUTO_EDIT, "--output-format", "json")
        told = str(server.requests[1].json["messages"][-1])

    assert (done.code, done.json["status"], done.json["denials"]) == (0, "success", [])
    assert done.json["files_changed"] == ["build/", "p.db"]
    assert "build/ (new, 2 files, git ignores it)" in told
    assert "pycache" not in told.partition("exit status")[2]
    assert (place.project / "build/a/x").read_text() == "1\n"
    assert not (place.project / "__pycache__").exists()


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_packages_nobody_allowed_are_named_in_every_format(place: Place, form: str) -> None:
    needs_a_whole_sandbox(place)
    install = "mkdir node_modules; echo 1 > node_modules/x"
    replies = [{"calls": [{"name": "shell", "arguments": {"command": install}}]}, {"text": "Done."}]
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "x", *AUTO_EDIT, "--quiet", "--output-format", form)

    assert done.code == 1
    told = done.err
    if form != "text":
        result = done.lines[-1]
        assert result["status"] == "incomplete"
        ((denied,), (refused,)) = result["denials"], result["refused"]
        assert denied == refused
        told = denied["reason"]
    assert "node_modules/" in told
    assert "--allow 'edit(./node_modules/**)'" in told
    assert not (place.project / "node_modules").exists()


@pytest.mark.parametrize("last", ["touch /tmp/ready; sleep 60", "touch /tmp/ready"])
def test_a_run_tells_what_became_of_background_changes(place: Place, last: str) -> None:
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
    with ScriptedServer(replies) as server:
        place.url = server.openai_url
        done = place.run("run", "x", *AUTO_EDIT, "--output-format", "json")

    assert (done.code, done.json["status"]) == (1, "incomplete")
    assert done.json["files_changed"] == ["log.txt"]
    assert ["node_modules/" in one["reason"] for one in done.json["refused"]] == [True]
