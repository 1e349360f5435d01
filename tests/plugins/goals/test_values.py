"""What a goal protects, when it stalls, and how `/goal` is read, as values."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kode.errors import UserError
from kode.plugin import run_git
from kode.plugins.goals.check import ALIKE_WHATEVER, Checked, is_stalled
from kode.plugins.goals.command import _given, _typed
from kode.plugins.goals.guard import Guard, differing, make_guard
from tests.needs import skip_without
from tests.tables import for_each
from tests.workplaces import workplace

FILES = (
    "src/calc.py",
    "tests/test_calc.py",
    "tests/test_more.py",
    "tests/helpers.py",
    "tests/data/one.json",
    "test_flat.py",
    "run.sh",
    "pyproject.toml",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "project"


def guarded(project: Path, command: str, protect: Sequence[str] | None = None) -> set[str]:
    place = workplace(project)
    return set(make_guard(command, protect, place).held) - {"pyproject.toml"}


ALL_TESTS = set(FILES[1:6])
COMMANDS = {
    "pytest": ALL_TESTS,
    "cd src && pytest -q": ALL_TESTS,
    "pytest tests": ALL_TESTS - {"test_flat.py"},
    "pytest tests/test_calc.py::test_add": {
        "tests/test_calc.py",
        "tests/helpers.py",
        "tests/data/one.json",
    },
    "./run.sh": {"run.sh"},
    "pytest --rootdir=tests 'unclosed": ALL_TESTS - {"test_flat.py"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_goal_protects_what_its_check_names(project: Path, command: str) -> None:
    assert guarded(project, command) == COMMANDS[command]


def test_patterns_take_the_place_of_the_tests(project: Path) -> None:
    assert guarded(project, "pytest", ["src/**"]) == {"src/calc.py"}
    assert make_guard("pytest", [], workplace(project)) == Guard(rules={}, held={})


def test_changed_lost_and_new_files_differ(project: Path) -> None:
    place = workplace(project)
    guard = make_guard("pytest tests", None, place)
    assert differing(guard, place, ()) == []
    (project / "tests" / "test_calc.py").write_text("changed")
    (project / "tests" / "test_more.py").unlink()
    (project / "src" / "conftest.py").write_text("new")
    (project / "src" / "calc.py").write_text("this one may change")
    found = set(differing(guard, place, ()))
    assert found == {"tests/test_calc.py", "tests/test_more.py", "src/conftest.py"}


def test_ignored_files_are_protected_and_new_ones_once_opened(project: Path) -> None:
    """What git ignores may be very much: of new ones those count that the check opens."""
    skip_without("git")
    ignored = "local*\n*.ini\nconftest.py\n.tools/\nnode_modules/\n"
    (project / ".gitignore").write_text(ignored)
    run_git(project, ["init", "-q"])
    for name in ("pytest.ini", "tests/local.bin"):
        (project / name).write_text("there before")
    (project / ".tools").mkdir()
    place = workplace(project, environment={"PATH": str(project / ".tools")})
    (project / "node_modules").mkdir()
    for folder in (".tools", "node_modules"):
        (project / folder / "conftest.py").write_text("as installed")
    guard = make_guard("pytest tests", None, place)
    assert "pytest.ini" in guard.held
    assert not {"tests/local.bin", ".tools/conftest.py", "node_modules/conftest.py"} & {*guard.held}
    for name in ("conftest.py", ".tools/conftest.py", "node_modules/new.py", "tests/local_2.py"):
        (project / name).write_text("new")
    assert differing(guard, place, ()) == []
    other = project.parent / "conftest.py"
    other.write_text("of another folder")
    opened = ("conftest.py", ".tools/conftest.py", "tests/local.bin", "tests/gone.py", str(other))
    assert differing(guard, place, opened) == ["conftest.py"]
    (project / "pytest.ini").write_text("changed")
    assert differing(guard, place, ()) == ["pytest.ini"]


def attempts(*kinds: tuple[str, str]) -> list[dict[str, Any]]:
    """(tree, failure) of each; one that ends in `=` changed no file, one in `~` did not end."""
    return [
        {
            "tree": tree,
            "same": same,
            "exit_status": 124 if tree.endswith("~") else 1,
            "files": [] if tree.endswith(("=", "~")) else [{"path": "calc.py"}],
        }
        for tree, same in kinds
    ]


@for_each(
    ("kinds", "stalled"),
    [
        ([("a", "x"), ("a", "x")], False),
        ([("a", "x"), ("a", "x"), ("a", "x")], True),
        ([("a", "x"), ("b", "x"), ("c", "x")], False),
        ([("a", "x"), ("b", "x"), ("a", "x"), ("b", "x")], True),
        ([("a", "x"), ("b", "y"), ("a", "x"), ("c", "z")], False),
        ([("a", "x"), ("b=", "y"), ("c=", "z")], True),
        ([("a", "x"), ("b~", "y"), ("c=", "x"), ("d~", "y")], True),
        ([("a", "x"), ("b~", "y"), ("c", "x"), ("d~", "y")], False),
        ([(str(n), "x") for n in range(ALIKE_WHATEVER)], True),
        ([(str(n), str(n)) for n in range(ALIKE_WHATEVER)], False),
    ],
)
def test_a_goal_stalls_by_values(kinds: list[tuple[str, str]], stalled: bool) -> None:
    assert is_stalled(attempts(*kinds)) is stalled


def test_numbers_do_not_tell_failures_apart() -> None:
    def failed(output: str) -> str:
        return Checked(exit_status=1, output=output, fault="", tree="", opens=None).same

    assert failed("1 failed in 0.31s at 0x7fa") == failed("1 failed in 12.5s at 0x11b")
    assert failed("test_a failed") != failed("test_b failed")


TYPED = {
    "all of it passes --verify pytest -q 'a b'": ("all of it passes", "pytest -q 'a b'", None),
    "don't break --verify 'make test' --protect x/**": ("don't break", "make test", ["x/**"]),
}


@pytest.mark.parametrize("line", TYPED)
def test_a_typed_goal_needs_no_quotes(line: str) -> None:
    value = _given(line)
    assert (value["text"], value["verify"], value["protect"]) == TYPED[line]


@pytest.mark.parametrize("line", [*TYPED, "add adds --verify \"grep -q 'a b' c\""])
def test_a_goal_of_flags_is_shown_as_typed(line: str) -> None:
    value = _given(line)
    shown = _typed(value)
    assert not shown.startswith("{")
    assert _given(shown) == value


@pytest.mark.parametrize("change", [{"text": "say --protect"}, {"task": "and the docs"}])
def test_a_goal_that_cannot_be_typed_stays_values(change: dict[str, str]) -> None:
    assert _typed({**_given("add adds --verify true"), **change}) == ""


@pytest.mark.parametrize("line", ["adds --verify 'make x'", json.dumps(_given("adds --verify x"))])
def test_words_that_were_not_sent_stay_beside_a_goal(line: str) -> None:
    alone, both = _given(line), _given(f"{line}\n\nand see the docs")
    assert both == {**alone, "task": "and see the docs"}


@pytest.mark.parametrize("line", ["only words", "words --protect x", "w --verify x --review"])
def test_a_goal_needs_a_check_and_knows_its_flags(line: str) -> None:
    with pytest.raises(UserError, match="--verify"):
        _given(line)
