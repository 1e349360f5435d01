"""`/tmp` of a session whose commands have their own: one place for the gate, tools and commands."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.permissions.decide import decide_call
from kode.permissions.gate import Gate, GateState
from kode.permissions.rules import Rules
from kode.tool import Action, Decision, ToolContext
from kode.tools import files
from kode.tools.edit_file import edit_file
from kode.tools.read_file import read_file
from kode.tools.write_file import write_file
from kode.workplace import Workplace, as_seen, located, real_path
from tests.workplaces import make_call, workplace

NAME = f"/tmp/kode-test-{os.getpid()}"


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    folder = tmp_path / "kode" / "sandbox" / "layers-1" / "tmp"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def place(tmp_path: Path, tmp: Path) -> Workplace:
    project = tmp_path / "project"
    project.mkdir()
    return workplace(project, home=tmp_path / "kode", private_tmp=lambda: tmp)


def outcome(place: Workplace, tool: Any, path: str, mode: Any = "auto-edit") -> str:
    arguments = {"path": path}
    return decide_call(make_call(Rules(), mode, tool, arguments, place)).outcome


async def checked(place: Workplace, tool: Any, path: str, real: str, mode: Any) -> Decision:
    """The decision about a call whose path was found to lead to `real`."""
    arguments = {"path": path, "content": ""}
    gate = Gate(rules=Rules(), state=GateState(mode=mode), place=place)
    return gate.decide(Action(call_id="1", tool=tool, arguments=arguments, path=real))


def test_a_path_in_tmp_means_the_sessions_own(place: Workplace, tmp: Path) -> None:
    assert located(place, NAME) == str(tmp / Path(NAME).name)
    assert located(place, "/tmp") == str(tmp)
    assert as_seen(place, str(tmp / "a")) == "/tmp/a"
    assert as_seen(place, str(tmp)) == "/tmp"
    assert real_path(place, NAME) == str(tmp / Path(NAME).name)


def test_a_file_only_in_the_machines_tmp_is_meant_itself(place: Workplace, tmp: Path) -> None:
    with open(NAME, "x"):
        pass
    try:
        assert located(place, NAME) == NAME
        (tmp / Path(NAME).name).touch()
        assert located(place, NAME) != NAME
    finally:
        os.unlink(NAME)


@pytest.mark.parametrize(
    "path", ["/tmpfile", "/tmp/../etc/hostname", "/tmp/a/../../b", "/var/tmp/a"]
)
def test_other_paths_stay_as_they_are(place: Workplace, path: str) -> None:
    assert located(place, path) == path


def test_a_project_in_tmp_stays_the_project(tmp: Path) -> None:
    place = workplace(Path("/tmp/some/project"), private_tmp=lambda: tmp)
    for path in ("/tmp/some", "/tmp/some/project", "/tmp/some/project/new.py"):
        assert located(place, path) == path
    assert located(place, "/tmp/some-other") == str(tmp / "some-other")


@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
def test_it_is_read_and_written_unasked(place: Workplace, tmp: Path, mode: str) -> None:
    (tmp / "note").touch()
    assert outcome(place, read_file, "/tmp/note", mode) == "allow"
    assert outcome(place, write_file, "/tmp/note", mode) == "allow"
    assert outcome(place, edit_file, "/tmp/new", mode) == "allow"
    assert outcome(place, read_file, str(tmp / "note"), mode) == "allow"


def test_links_out_of_it_are_judged_by_where_they_lead(place: Workplace, tmp: Path) -> None:
    (place.home / "config.json").touch()
    (tmp / "config").symlink_to(place.home / "config.json")
    (tmp / "outside").symlink_to("/etc/passwd")
    (tmp / "folder").symlink_to(place.home)
    assert outcome(place, read_file, "/tmp/config") == "ask"
    assert outcome(place, read_file, "/tmp/outside") == "ask"
    assert outcome(place, write_file, "/tmp/outside") == "deny"
    assert outcome(place, write_file, "/tmp/config") == "deny"
    assert outcome(place, write_file, "/tmp/folder/new") == "deny"


@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
@pytest.mark.parametrize(
    "spelling", ["/tmp/..{}", "{cwd}/../../../../../..{}", "/{}", "//{}", "/.{}"]
)
async def test_no_spelling_of_a_path_reaches_the_machines_tmp_unasked(
    place: Workplace, tmp: Path, spelling: str, mode: Any
) -> None:
    path = spelling.format(NAME, cwd=place.cwd)
    for there in (False, True):
        if there:
            (tmp / Path(NAME).name).touch()
        real = real_path(place, path)
        decision = await checked(place, write_file, path, real, mode)
        assert not decision.is_allowed or Path(real).is_relative_to(tmp)


async def test_a_swapped_link_does_not_lead_to_the_machines_tmp(
    place: Workplace, tmp: Path
) -> None:
    (tmp / "note").touch()  # by now; it was a link when the real path was looked up
    decision = await checked(place, write_file, "/tmp/note", NAME, "auto-edit")
    assert not decision.is_allowed


def test_keys_stay_keys_and_neighbours_stay_kodes_own(place: Workplace, tmp: Path) -> None:
    (tmp / ".env").touch()
    (tmp.parent / "mask").touch()
    assert outcome(place, read_file, "/tmp/.env") == "ask"
    assert outcome(place, read_file, str(tmp.parent / "mask")) == "ask"
    assert outcome(place, write_file, str(tmp.parent / "mask")) == "deny"


def test_the_file_tools_agree(place: Workplace, tmp: Path) -> None:
    context = ToolContext(
        place=place, call_id="1", session_id=None, emit=lambda event: None, seen_files={}
    )
    inside = files.resolve(context, "/tmp/config.json")
    assert inside == tmp / "config.json"
    assert files.display_path(context, inside) == "/tmp/config.json"
    assert files.find_outside_source(context, inside) == ""
    files.refuse_secret(context, inside)
    files.refuse_protected(context, inside)
    with_none = replace(context, place=replace(place, private_tmp=lambda: None))
    assert files.resolve(with_none, NAME) == Path(NAME)
