"""Sessions without a terminal: started, listed, attached, answered, stopped, and killed."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.background import (
    Background,
    background,
    processes,
    until,
    working_in,
)
from tests.e2e.command import Place
from tests.needs import needs
from tests.scripted_server import ScriptedServer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

READ = {"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}
EDIT = {
    "calls": [
        {
            "name": "edit_file",
            "arguments": {"path": "a.txt", "old_text": "one", "new_text": "two"},
        }
    ]
}
SLEEP = {"calls": [{"name": "shell", "arguments": {"command": "touch begun; exec sleep 60"}}]}
DONE = {"text": "All is done."}


@pytest.fixture
def sessions(place: Place, server: ScriptedServer) -> Iterator[Background]:
    (place.project / "a.txt").write_text("one\n")
    server.repeat_last = True
    with background(place) as found:
        yield found


def messages(server: ScriptedServer) -> str:
    return json.dumps([request.json["messages"] for request in server.requests])


@pytest.mark.parametrize("face", [(), ("--plain",)], ids=["rich", "plain"])
def test_a_persons_answer_from_elsewhere_reaches_the_question(
    sessions: Background, server: ScriptedServer, face: tuple[str, ...]
) -> None:
    server.play([READ, EDIT, DONE])
    place = sessions.place
    id = sessions.start("do it", *face)
    sessions.does(id, "asks")

    assert "-one" in place.run("answer", id).out
    asked = sessions.listed()[id]
    assert (asked["state"], asked["question"]["subject"]) == ("asks", "a.txt")
    assert place.run("answer", id, "always").code == 3
    place.extra["KODE_DEPTH"] = "1"  # as in a command of an agent
    assert place.run("answer", id, "yes").code == 3
    assert sessions.said(id)["doing"] == "asks"
    del place.extra["KODE_DEPTH"]
    assert place.run("answer", id, "yes").code == 0

    one = sessions.over(id)
    assert (one["state"], one["status"], one["result"]) == ("ended", "success", "All is done.")
    assert (place.project / "a.txt").read_text() == "two\n"


def test_a_message_reaches_a_running_and_an_ended_session(
    sessions: Background, server: ScriptedServer
) -> None:
    server.play([READ, EDIT, DONE, {"text": "You are welcome."}])
    place = sessions.place
    id = sessions.start("do it", "--name", "night-run")
    sessions.does(id, "asks")

    assert place.run("send", "night-run", "then", "rest").code == 0
    assert sessions.said(id)["doing"] == "asks"
    place.run("answer", "night-run", "yes")
    assert sessions.over(id)["name"] == "night-run"
    assert "then rest" in messages(server)
    assert place.run("send", id, "thank you").code == 0
    sessions.over(id)

    lines = place.run("logs", id).out.splitlines()
    assert lines[:3] == ["> do it", "● read_file a.txt", "● edit_file a.txt"]
    assert lines[-3:-1] == ["> thank you", "You are welcome."]
    assert lines[-1].startswith(f"{id} ended: success")


def test_an_attached_terminal_is_the_prompt_and_detaches(
    sessions: Background, server: ScriptedServer
) -> None:
    server.play([READ, EDIT, DONE])
    id = sessions.start("do it")
    sessions.does(id, "asks")

    with sessions.attach(id) as terminal:
        terminal.until("Edit this file?", "n  no")
        terminal.type("\x1c")
        terminal.until("Detached")
        assert terminal.ended() == 0
    assert sessions.said(id)["doing"] == "asks"
    with sessions.attach(id, width=60) as terminal:
        terminal.until("Edit this file?", "n  no")
        terminal.type("y", "enter")
        terminal.until("All is done.")
        terminal.type("and more", "enter")
        terminal.until_count("All is done.", 2)
        terminal.type("\x1c")
        terminal.until("Detached")

    assert sessions.over(id)["turns"] == 2


def test_stopping_a_session_ends_everything_it_started(
    sessions: Background, server: ScriptedServer
) -> None:
    server.play([SLEEP, DONE])
    id = sessions.start("do it", "--permission-mode", "full")
    until(lambda: (sessions.place.project / "begun").exists())

    assert sessions.place.run("stop", id).code == 0

    assert not processes(sessions.folder(id))
    one = sessions.listed()[id]
    assert (one["state"], one["status"]) == ("ended", "interrupted")
    assert not working_in(sessions.place.project)


def test_a_killed_session_is_listed_and_resumed(
    sessions: Background, server: ScriptedServer
) -> None:
    server.play([SLEEP, DONE])
    id = sessions.start("do it", "--permission-mode", "full")
    until(lambda: (sessions.place.project / "begun").exists())

    for pid in processes(sessions.folder(id)):  # its holder and its prompt
        os.kill(pid, signal.SIGKILL)
    until(lambda: not processes(sessions.folder(id)))

    assert sessions.listed()[id]["state"] == "killed"
    assert f"`kode attach {id}` resumes it." in sessions.place.run("ps").out
    with sessions.attach(id) as terminal:
        terminal.until("do it")
        terminal.type("go on", "enter")
        terminal.until("All is done.")
        terminal.type("\x1c")
        terminal.until("Detached")
    assert (sessions.over(id)["status"], sessions.over(id)["turns"]) == ("success", 1)
    assert messages(server).count("do it") == 2
    until(lambda: not working_in(sessions.place.project))


def test_foreseeable_errors_are_said_by_the_command_itself(
    sessions: Background, server: ScriptedServer
) -> None:
    place = sessions.place
    server.play([DONE])
    for words in (
        ["--nonsense", "do it"],
        ["--cwd", "nowhere", "do it"],
        ["--ctx", "missing.txt", "do it"],
        ["--worktree", "do it"],
        ["--json-schema", "{", "do it"],
        ["--json-schema", "missing.json", "do it"],
        ["--replay", "missing.json", "do it"],
        ["--record", "nowhere/cassette.json", "do it"],
        ["--no-session", "do it"],
        ["--output-format", "stream-json", "do it"],
        ["--allow", "nothing(", "do it"],
        [],
    ):
        assert place.run("start", *words).code == 3, words
    place.extra |= {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    assert place.run("start", "do it").code == 3
    assert not list(place.home.glob("detached/*"))


def test_a_session_waits_for_its_background_commands(
    sessions: Background, server: ScriptedServer
) -> None:
    waits = "touch begun; while [ ! -e go ]; do sleep 0.1; done; touch gone"
    begin = {"calls": [{"name": "shell", "arguments": {"command": waits, "background": True}}]}
    server.play([begin, DONE])
    id = sessions.start("do it", "--permission-mode", "full")
    until(lambda: sessions.said(id)["turns"] == 1)
    assert processes(sessions.folder(id))

    (sessions.place.project / "go").touch()

    assert sessions.over(id)["status"] == "success"
    assert (sessions.place.project / "gone").exists()


def test_a_key_of_a_task_reaches_no_file(sessions: Background, server: ScriptedServer) -> None:
    server.play([READ, EDIT, DONE])
    keys = ["sk-proj-" + "Zk3vQ9xT1mLw8RbY" * 3, "ghp_" + "a8Kd0ZqLw3RbYv7NmTxE2uHsJ4cP6gQ1fWoI"]
    text = f"or {keys[1]}\n" + "a line from elsewhere\n" * 4_000  # more than a pipe holds

    id = sessions.start(f"use {keys[0]}", "--append-system", keys[0], stdin=text)

    sessions.does(id, "asks")
    assert all(key in messages(server) for key in keys)
    assert messages(server).count("a line from elsewhere") >= 4_000
    files = [path.read_bytes() for path in sessions.place.home.rglob("*") if path.is_file()]
    assert not any(key.encode() in data for key in keys for data in files)
    assert sessions.listed()[id]["task"].startswith("use [redacted ")


CONNECT = """
import os, socket, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
os.fchdir(folder)
made = socket.socket(socket.AF_UNIX)
made.settimeout(10)
made.connect("socket")
made.sendall(b"A\\0\\0\\0\\4\\0\\x18\\0P")
print(made.recv(4096))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_another_user_gets_nothing_even_through_an_open_folder(
    sessions: Background, server: ScriptedServer
) -> None:
    server.play([READ, EDIT, DONE])
    id = sessions.start("do it")
    sessions.does(id, "asks")
    folder = sessions.folder(id)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)} == {0o700}
    command = [sys.executable, "-c", CONNECT, str(folder), "65534"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "PermissionError" in refused.stderr

    for path in (folder, folder / "socket"):  # as if the modes had been changed
        path.chmod(0o777)
    heard = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "PermissionError" not in heard.stderr
    assert heard.stdout.strip() in ("b''", "")
    assert sessions.said(id)["doing"] == "asks"


@needs("git")
def test_a_worktree_is_merged_or_dropped(sessions: Background, server: ScriptedServer) -> None:
    project = sessions.place.project
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "begin")
    server.play([READ, EDIT, DONE, READ, EDIT, DONE])
    flags = ("--worktree", "--permission-mode", "auto-edit")
    merged = sessions.start("do it", *flags)
    assert sessions.over(merged)["files_changed"] == ["a.txt"]
    dropped = sessions.start("do it", *flags)
    assert sessions.over(dropped)["branch"] == f"kode/{dropped}"
    assert (project / "a.txt").read_text() == "one\n"

    assert sessions.place.run("ps", "--done", "--drop", dropped).code == 0
    assert (project / "a.txt").read_text() == "one\n"
    assert sessions.place.run("ps", "--done", "--merge", merged).code == 0

    assert (project / "a.txt").read_text() == "two\n"
    assert git(project, "branch", "--list", "kode/*") == ""
    assert "two" in git(project, "show", f"refs/kode/dropped/{dropped}:a.txt")
    assert {one["settled"] for one in sessions.listed("--done").values()} == {"merged", "dropped"}


def git(project: Any, *words: str) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=project, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
