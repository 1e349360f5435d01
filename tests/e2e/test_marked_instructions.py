"""What a session with outside text wrote steers no later one until a person says yes."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.command import KODE, Place, needs_a_whole_sandbox
from tests.e2e.terminal import Terminal
from tests.e2e.test_laundering import ORDER, REMEMBER, call, remembered
from tests.scripted_server import ScriptedServer


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A project whose CLAUDE.md imports a file."""
    place = Place(tmp_path)
    (tmp_path / "mail.txt").write_text(ORDER)
    (place.project / "docs").mkdir()
    (place.project / "docs" / "rules.md").write_text("Be brief.")
    (place.project / "CLAUDE.md").write_text("See @docs/rules.md for more.")
    return place


def session(
    place: Place, *calls: dict, mode: str = "auto-edit", flags: tuple[str, ...] = ()
) -> tuple[str, str]:
    """What the model got at the start of a session, and what kode reported."""
    with ScriptedServer([*calls, {"text": "ok"}]) as server:
        place.url = server.openai_url
        done = place.run("run", "continue", "--permission-mode", mode, *flags)
        assert done.code == 0, done.err
        return json.dumps(server.requests[0].json), done.err


def marked(place: Place, *calls: dict, mode: str = "auto-edit") -> None:
    """A session that reads a foreign file first."""
    foreign = place.folder / "mail.txt"
    read = call("read_file", path=str(foreign))
    got, _ = session(place, read, *calls, mode=mode, flags=("--allow", f"read({foreign})"))
    assert "Be brief." in got


BY_TOOL = call("write_file", path="docs/rules.md", content=f"Be brief.\n{ORDER}")
BY_COMMAND = call("shell", command=f"{{ echo; echo '{ORDER}'; }} >> docs/rules.md")


@pytest.mark.parametrize(
    ("write", "mode"),
    [(BY_TOOL, "auto-edit"), (BY_COMMAND, "auto-edit"), (BY_COMMAND, "full")],
    ids=["tool", "sandboxed command", "command"],
)
def test_a_marked_file_waits_in_a_run_and_is_named(place: Place, write: dict, mode: str) -> None:
    if write is BY_COMMAND and mode != "full":
        needs_a_whole_sandbox(place)
    marked(place, call("read_file", path="docs/rules.md"), write, mode=mode)
    assert ORDER in (place.project / "docs" / "rules.md").read_text()

    got, reported = session(place, REMEMBER)
    assert "See @docs/rules.md" in got
    assert ORDER not in got
    assert "Be brief." not in got
    assert "docs/rules.md" in reported
    assert "kode extensions approve" in reported
    assert remembered(place), "nothing from outside was in this session"

    assert reported.count("docs/rules.md") == 1

    shown = place.run("trust", "show", "docs/rules.md").out
    assert f"+{ORDER}" in shown
    assert place.run("trust", "approve", "--yes").code == 0
    got, reported = session(place)
    assert ORDER in got
    assert "kode extensions" not in reported


def test_it_waits_after_a_rename_commit_and_clone(place: Place) -> None:
    marked(place, call("write_file", path="notes.md", content=ORDER))

    def git(*arguments: str) -> None:
        names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *names, *arguments], cwd=place.folder, check=True)

    (place.project / "notes.md").rename(place.project / "docs" / "rules.md")
    git("-C", "project", "init", "-q")
    git("-C", "project", "add", "-A")
    git("-C", "project", "commit", "-qm", "rules")
    git("clone", "-q", "project", "clone")
    place.project.rename(place.folder / "old")
    (place.folder / "clone").rename(place.project)

    got, reported = session(place, call("read_file", path="docs/rules.md"), REMEMBER)

    assert ORDER not in got
    assert "docs/rules.md" in reported
    assert not remembered(place), "it has read the file with a tool"


def test_a_person_sees_the_change_and_decides(place: Place) -> None:
    marked(place, call("read_file", path="docs/rules.md"), BY_TOOL)
    with ScriptedServer([{"text": "first"}, {"text": "second"}]) as server:
        place.url = server.openai_url
        for key, answer in (("n", "first"), ("y", "second")):
            with Terminal(
                KODE, [], cwd=place.project, env=place.environ, width=100, height=60
            ) as terminal:
                terminal.until("ask ·")
                terminal.type("hello", "enter")
                terminal.until("instructions docs/rules.md", f"+{ORDER}", "mail.txt")
                terminal.type(key)
                terminal.until(answer)
                terminal.type("/quit", "enter")
                assert terminal.ended() == 0
        without, with_it = (json.dumps(one.json) for one in server.requests)

    assert ORDER not in without
    assert ORDER in with_it
