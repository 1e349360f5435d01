"""`/tmp` of a session whose commands have their own: one place for the gate, tools and commands."""

import os
from pathlib import Path

import pytest

from kode.permissions.gate import Gate, GateState
from kode.permissions.rules import Rules
from kode.tool import Action, Decision, ToolContext
from kode.tools import files
from kode.tools.edit import write_file
from kode.workplace import Workplace, real_path, to_command, to_host
from tests.permissions.calls import decided
from tests.tables import for_each
from tests.workplaces import workplace

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


def check(place: Workplace, path: str, real: str, mode: str = "auto-edit") -> Decision:
    """The decision about an edit whose path was found to lead to `real`."""
    gate = Gate(rules=Rules(), state=GateState(mode=mode), place=place)
    arguments = {"path": path, "content": ""}
    return gate.decide(Action(call_id="1", tool=write_file, arguments=arguments, path=real))


def test_a_path_in_tmp_means_the_sessions_own(place: Workplace, tmp: Path) -> None:
    inside = workplace(Path("/tmp/some/project"), private_tmp=lambda: tmp)
    assert real_path(place, NAME) == str(tmp / Path(NAME).name)
    for at, path, own in (
        (place, NAME, Path(NAME).name),
        (place, "/tmp", ""),
        (inside, "/tmp/some-other", "some-other"),
        *((place, path, None) for path in ("/tmpfile", "/tmp/../etc/hostname", "/var/tmp/a")),
        *((inside, path, None) for path in ("/tmp/some", "/tmp/some/project/new.py")),
    ):
        assert to_host(at, path) == (path if own is None else str(tmp / own))
        assert own is None or to_command(at, str(tmp / own)) == path
    context = ToolContext(place=place, call_id="1", emit=lambda event: None)
    assert files.find_outside_source(context, files.resolve(context, NAME)) == ""


def test_a_file_only_in_the_machines_tmp_is_meant_itself(place: Workplace, tmp: Path) -> None:
    with open(NAME, "x"):
        pass
    try:
        assert to_host(place, NAME) == NAME
        (tmp / Path(NAME).name).touch()
        assert to_host(place, NAME) != NAME
    finally:
        os.unlink(NAME)


@for_each("mode", ["ask", "auto-edit"])
@for_each(
    ("tool", "path", "expected"),
    [
        ("read_file", "/tmp/note", "allow"),
        ("read_file", "{tmp}/note", "allow"),
        ("write_file", "/tmp/note", "allow"),
        ("edit_file", "/tmp/new", "allow"),
        ("read_file", "/tmp/config", "ask"),
        ("read_file", "/tmp/outside", "ask"),
        ("write_file", "/tmp/outside", "deny"),
        ("write_file", "/tmp/config", "deny"),
        ("write_file", "/tmp/folder/new", "deny"),
        # Keys stay keys, and neighbours stay kode's own.
        ("read_file", "/tmp/.env", "ask"),
        ("read_file", "{tmp}/../mask", "ask"),
        ("write_file", "{tmp}/../mask", "deny"),
    ],
)
def test_only_links_that_lead_out_of_it_are_asked_about(place, tmp, tool, path, expected, mode):
    if not (tmp / "config").is_symlink():
        (tmp / "config").symlink_to(place.home / "config.json")
        (tmp / "outside").symlink_to("/etc/passwd")
        (tmp / "folder").symlink_to(place.home)
    for file in (place.home / "config.json", tmp / "note", tmp / ".env", tmp.parent / "mask"):
        file.touch()
    more = {"cwd": place.cwd, "home": place.home, "private_tmp": place.private_tmp}
    assert decided(mode, tool, path.format(tmp=tmp), **more).outcome == expected


@for_each("mode", ["ask", "auto-edit"])
@for_each("spelling", ["/tmp/..{}", "{cwd}/../../../../../..{}", "/{}", "//{}", "/.{}"])
def test_no_spelling_of_a_path_reaches_the_machines_tmp_unasked(place, tmp, spelling, mode):
    path, file = spelling.format(NAME, cwd=place.cwd), tmp / Path(NAME).name
    for prepare in (lambda: file.unlink(missing_ok=True), file.touch):
        prepare()
        real = real_path(place, path)
        assert not check(place, path, real, mode).is_allowed or Path(real).is_relative_to(tmp)


def test_a_swapped_link_does_not_lead_to_the_machines_tmp(place: Workplace, tmp: Path) -> None:
    (tmp / "note").touch()  # by now; it was a link when the real path was looked up
    assert not check(place, "/tmp/note", NAME).is_allowed
