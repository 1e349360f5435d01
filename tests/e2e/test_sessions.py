"""Sessions from outside: the installed command, a scripted model, the files it leaves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kode.session import log
from tests.e2e.terminal import Terminal

KODE = str(Path(sys.executable).parent / "kode")
KEY = "sk-ant-api03-" + "aB3dE5gH7jK9" * 8


class Place:
    """A project, a home, and kode with a model that always says the same."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        script = folder / "script.json"
        script.write_text(json.dumps([{"match": ".*", "text": "plain answer"}]))
        self.flags = ("--provider", "scripted", "--script", str(script), "--no-memory")

    def kode(self, *argv: str, code: int = 0) -> str:
        path = os.environ.get("PATH", "")
        done = subprocess.run(
            [KODE, *argv],
            cwd=self.project,
            env={"PATH": path, "HOME": str(self.home), "KODE_HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def only_session(self) -> str:
        (file,) = (self.home / "sessions").glob("*.jsonl")
        return file.stem


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_one_run_and_two_continues_make_three_turns(place: Place) -> None:
    place.kode("run", *place.flags, "one")
    place.kode("continue", *place.flags, "two")
    session_id = place.only_session()
    place.kode("continue", "--id", session_id[:18], *place.flags, "three")

    document = json.loads(place.kode("session", "export", session_id))

    roles = [message["role"] for message in document["messages"]]
    assert roles == ["system"] + ["user", "assistant"] * 3
    assert document["turns"] == 3
    assert session_id in place.kode("session", "list")


def test_a_key_in_a_task_does_not_reach_the_disk(place: Place) -> None:
    place.kode("run", *place.flags, f"my key is {KEY}, remember")

    kept = [path for path in place.home.rglob("*") if path.is_file()]
    assert kept
    assert all(KEY.encode() not in path.read_bytes() for path in kept)


def test_a_session_open_elsewhere_is_an_error_and_can_fork(place: Place) -> None:
    place.kode("run", *place.flags, "one")
    session_id = place.only_session()
    session, _ = log.load(place.home, session_id)

    error = place.kode("continue", *place.flags, "two", code=3)
    forked = place.kode("session", "fork", session_id).strip()
    session.close()
    place.kode("continue", "--id", forked, *place.flags, "two")

    assert f"kode session fork {session_id}" in error
    assert json.loads(place.kode("session", "export", forked))["turns"] == 2
    assert json.loads(place.kode("session", "export", session_id))["turns"] == 1


def test_a_run_without_a_session_leaves_none(place: Place) -> None:
    place.kode("run", "--no-session", *place.flags, "one")

    assert not list(place.home.glob("sessions/*"))


def test_a_long_transcript_is_paged_on_a_terminal_only(place: Place, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\nexec cat\n")
    pager.chmod(0o755)
    place.kode("run", *place.flags, "line\n" * 50)
    session = place.only_session()
    environ = {"HOME": str(tmp_path), "KODE_HOME": str(place.home), "PAGER": f"{pager} --its-own"}
    for words, paged in ((["--no-pager"], False), ([], True)):
        show = ["session", "show", session, *words]
        with Terminal(KODE, show, cwd=place.project, env=environ) as terminal:
            assert terminal.ended() == 0
            assert ("PAGED" in terminal.text) == paged
            assert "## You" in terminal.text
    piped = place.kode("session", "show", session)
    assert "PAGED" not in piped
    assert "\x1b" not in piped
