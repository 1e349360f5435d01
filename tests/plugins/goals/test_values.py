"""What a goal protects, when it stalls, and how `/goal` is read, within this process."""

import json
from types import SimpleNamespace

import pytest

from kode import paths
from kode.cli.main import main
from kode.errors import UserError
from kode.plugin import run_git
from kode.plugins.goals.check import find_differing, make_guard
from kode.plugins.goals.goal import is_stalled, parse_request
from kode.sandbox.reach import Opens
from tests.needs import needs, skip_without
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
def project(tmp_path):
    for name in FILES:
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "project"


def guard_of(project, command):
    opens = Opens(project=(), scripts=(), elsewhere=())
    return make_guard(command, opens, workplace(project))


ALL_TESTS = set(FILES[1:6])
COMMANDS = {
    "pytest": ALL_TESTS,
    "cd src && pytest -q": ALL_TESTS,
    "pytest tests": ALL_TESTS - {"test_flat.py"},
    "pytest tests/test_calc.py::test_add": ALL_TESTS - {"tests/test_more.py", "test_flat.py"},
    "./run.sh": {"run.sh"},
    "pytest --rootdir=tests 'unclosed": ALL_TESTS - {"test_flat.py"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_goal_protects_what_its_check_names(project, command):
    assert {*guard_of(project, command).held} - {"pyproject.toml"} == COMMANDS[command]


@needs("bwrap", "make")
def test_files_of_a_check_are_put_back_before_it_runs(project, monkeypatch, capsys):
    def write(path, text):
        arguments = {"path": path, "content": text}
        return {"calls": [{"name": "write_file", "arguments": arguments}]}

    check = "PYTHONPATH=. python3 tests/test_calc.py\n"
    texts = {"Makefile": "test:\n\t@sh run.sh\n", "run.sh": check, "calc.py": "SUM = 2\n"}
    texts["tests/test_calc.py"] = "import bisect, string, calc\nassert calc.SUM == 3\n"
    for name, text in texts.items():
        (project / name).write_text(text)
    passes = "import os\nos._exit(0)\n"
    edits = [
        write("run.sh", "exit 0\n"),
        *(write(name, passes) for name in ("tests/string.py", "bisect.py")),
    ]
    home = paths.kode_home()
    home.mkdir()
    (home / "script.json").write_text(json.dumps([*edits, *[{"text": "Done."}] * 9]))
    config = {"provider": "scripted", "script": str(home / "script.json")}
    paths.config_file(home).write_text(json.dumps(config))
    monkeypatch.chdir(project)

    flags = ("--permission-mode", "auto-edit", "--output-format", "json", "--no-memory")
    status = main(["run", "--goal", "the sum is right", "--verify", "make test", *flags])

    goal = json.loads(capsys.readouterr().out)["goal"]
    assert (status, goal["status"]) == (1, "stalled")
    assert {*goal["attempts"][0]["restored"]} == {"tests/string.py", "bisect.py"}
    assert goal["attempts"][0]["exit_status"] != 0
    assert (project / "run.sh").read_text() == check


def test_changed_lost_and_new_files_differ(project):
    place, guard = workplace(project), guard_of(project, "pytest tests")
    assert find_differing(guard, place) == []
    (project / "tests" / "test_calc.py").write_text("changed")
    (project / "tests" / "test_more.py").unlink()
    (project / "src" / "conftest.py").write_text("new")
    (project / "src" / "calc.py").write_text("this one may change")
    found = set(find_differing(guard, place))
    assert found == {"tests/test_calc.py", "tests/test_more.py", "src/conftest.py"}


def test_files_that_git_ignores_count_by_their_names(project):
    skip_without("git")
    (project / ".gitignore").write_text("local*\n*.ini\nconftest.py\nnode_modules/\n")
    run_git(project, ["init", "-q"])
    (project / "node_modules").mkdir()
    for name in ("pytest.ini", "tests/local.bin", "node_modules/conftest.py"):
        (project / name).write_text("there before")
    place, guard = workplace(project), guard_of(project, "pytest tests")
    assert "pytest.ini" in guard.held
    assert not {"tests/local.bin", "node_modules/conftest.py"} & {*guard.held}
    for name in ("conftest.py", "node_modules/pytest.ini", "tests/local_2.py"):
        (project / name).write_text("new")
    assert find_differing(guard, place) == ["conftest.py"]
    (project / "pytest.ini").write_text("changed")
    assert find_differing(guard, place) == ["pytest.ini", "conftest.py"]


def attempt(tree):
    """One whose tree ends in `=` changed no file; one in `~` neither, and its check did not end."""
    status = None if tree.endswith("~") else 1
    files = [] if tree.endswith(("=", "~")) else ["calc.py"]
    return SimpleNamespace(tree=tree, exit_status=status, files=files)


@for_each(
    ("trees", "stalled"),
    [
        (["a", "a"], False),
        (["a", "a", "a"], True),
        (["a", "b", "c"], False),
        (["a", "b", "a", "b"], True),
        (["a", "b", "a", "c"], False),
        (["a", "b=", "c="], True),
        (["a", "b~", "c=", "d~"], True),
        (["a", "b~", "c", "d~"], False),
    ],
)
def test_a_goal_stalls_by_values(trees, stalled):
    assert is_stalled([*map(attempt, trees)]) is stalled


TYPED = {
    "all of it passes --verify pytest -q 'a b'": ("all of it passes", "pytest -q 'a b'"),
    "don't break --verify 'make test'": ("don't break", "make test"),
    "add adds --verify \"grep -q 'a b' c\"\n\nand the docs": (
        "add adds\n\nand the docs",
        "grep -q 'a b' c",
    ),
    "'say --verify' --verify 'make x'": ("say --verify", "make x"),
}


@pytest.mark.parametrize("line", TYPED)
def test_a_typed_goal_needs_few_quotes(line):
    assert parse_request(line) == TYPED[line]


@pytest.mark.parametrize("line", ["only words", "words --verify"])
def test_a_goal_needs_a_check(line):
    with pytest.raises(UserError, match="--verify"):
        parse_request(line)
