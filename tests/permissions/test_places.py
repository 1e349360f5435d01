"""Where care is needed: what holds keys, what runs later, what steers agents, what is outside."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.permissions import places
from kode.permissions.decide import decide_call
from kode.permissions.places import is_secret, runs_later
from kode.permissions.rules import Rules
from kode.tools.builtin import BUILTIN
from tests.tables import for_each
from tests.workplaces import ground, make_call, workplace

TOOLS = {tool.name: tool for tool in BUILTIN}
RUN_LATER = [name.replace("*", "x") for name in places.names("runs_later")]
DATA = json.loads((Path(__file__).parent / "data" / "places.json").read_text())


def outcome(tool, path, *, cwd, mode="auto-edit", home="/home/user"):
    return decide_call(
        make_call(
            Rules(),
            mode,
            TOOLS[tool],
            {"path": str(path)},
            workplace(cwd, user_home=Path(home)),
        )
    ).outcome


@for_each("path", DATA["keys"])
@for_each("home", ["/root", "/home/user", "/", "/root/app"])
def test_a_file_with_keys_is_one_wherever_the_home_is(path, home):
    project = Path("/root/app")

    where = ground(project, Path(home))

    assert is_secret(f"/root/app/{path}", where)


@pytest.mark.parametrize("home", ["/root", "/home/user"])
def test_root_is_asked_before_reading_the_projects_key_files(home):
    assert outcome("read_file", ".env", cwd=Path("/root/app"), home=home) == "ask"
    assert outcome("read_file", "main.py", cwd=Path("/root/app"), home=home) == "allow"


def test_the_home_of_root_is_secret_to_others():
    where = ground(Path("/home/user/p"), Path("/home/user"))

    assert is_secret("/root/notes.txt", where)


@for_each("path", DATA["no_keys"])
def test_an_example_or_a_program_is_no_file_with_keys(path):
    where = ground(Path("/root/app"), Path("/root"))

    assert not is_secret(f"/root/app/{path}", where)


def test_a_folder_named_like_a_key_file_is_none(tmp_path):
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "login.py").write_text("x = 1\n")
    where = ground(tmp_path, Path("/home/user"))

    assert not is_secret(str(tmp_path / "credentials"), where)
    assert not places.is_named_like_keys(str(tmp_path / "credentials"), is_folder=True)


@for_each("path", [*RUN_LATER, *DATA["run_by_git"]])
@for_each("mode", ["auto-edit", "full"])
def test_files_that_run_later_are_asked_about_before_changes(path, mode):
    assert outcome("write_file", path, cwd=Path("/home/user/p"), mode=mode) == "ask"


@for_each("path", [*RUN_LATER, *DATA["run_by_git"]])
def test_files_that_run_later_are_known_in_any_form(path):
    assert runs_later(f"/p/vendor/lib/{path}")
    assert runs_later(f"/p/{path.upper()}")
    assert runs_later(f"/p/{path.replace('s', 'ſ')}")


@for_each("path", DATA["ordinary"])
def test_an_ordinary_file_of_a_project_is_none_of_these(path):
    where = ground(Path("/home/user/p"), Path("/home/user"))

    assert not runs_later(f"/home/user/p/{path}")
    assert not is_secret(f"/home/user/p/{path}", where)
    assert not places.steers_agents(f"/home/user/p/{path}")


@for_each("path", DATA["steers"])
def test_orders_for_agents_are_known_by_name(path):
    assert places.steers_agents(f"/p/{path}")
    assert places.steers_agents(f"/p/sub/{path.lower()}")


@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
def test_the_temporary_folder_is_outside_for_file_tools(mode):
    project = Path("/tmp/p/work")

    assert outcome("write_file", "../outside/n.txt", cwd=project, mode=mode) == "ask"
    assert outcome("edit_file", "/tmp/n.txt", cwd=project, mode=mode) == "ask"
    assert outcome("read_file", "/tmp/n.txt", cwd=project, mode=mode) == "ask"
    assert outcome("list_files", "/tmp", cwd=project, mode=mode) == "ask"
    assert outcome("read_file", "n.txt", cwd=project, mode=mode) == "allow"


def test_edits_in_a_project_below_tmp_need_no_question():
    assert outcome("write_file", "n.txt", cwd=Path("/tmp/p/work")) == "allow"


def test_an_edit_through_a_link_leaving_the_project_is_asked(tmp_path):
    project, outside = tmp_path / "work", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "link").symlink_to(outside)

    assert outcome("write_file", "link/s.txt", cwd=project) == "ask"


_STEPS = st.sampled_from(
    [*places.names("runs_later"), *places.names("key_folders"), *places.names("key_files"), "src"]
)


@given(st.lists(_STEPS, min_size=1, max_size=3), st.sampled_from(["a", "x.py", "t"]))
def test_judgement_knows_no_case(steps, last):
    path = "/p/" + "/".join(steps).replace("*", "x") + "/" + last
    where = ground(Path("/p"), Path("/home/me"))

    assert runs_later(path) == runs_later(path.upper()) == runs_later(path.swapcase())
    assert is_secret(path, where) == is_secret("/p" + path.upper()[2:], where)
