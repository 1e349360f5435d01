"""The throw-away copy of the project: what a command changed in it, made real, and taken back."""

import os
import resource
import shlex
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kode.errors import KodeError
from kode.sandbox import layer
from kode.sandbox.sandbox import Sandbox
from tests.effort import share
from tests.needs import lacking, needs
from tests.sandbox.conftest import need
from tests.sandbox.sandboxed import Run, bash, put
from tests.undo.changes import Tree, step, tree, undo_in

pytestmark = [pytest.mark.slow, pytest.mark.sampled(of=2)]


@pytest.fixture
def run(made: Sandbox) -> Run:
    """Only the kind that has copies."""
    return need(made, "layered")


def files(found: Tree) -> Tree:
    """Undo is for files and links; folders that become empty are nobody's."""
    return {path: entry for path, entry in found.items() if entry[0] != "folder"}


def assert_equal_to_running_directly(run: Run, apart: Path, command: str) -> None:
    """What the copy takes and gives is what the command does without it, and undo takes it back."""
    was = tree(run.work, but=())
    directly = apart / "directly"
    shutil.copytree(run.work, directly, symlinks=True)
    bash(directly, command)
    undo = undo_in(apart / "undo")
    with run.attempt(f"set -e; {command}") as (attempt, done):
        assert done.code == 0, done.err
        assert tree(run.work, but=()) == was
        changes = attempt.changes()
        with step(undo, 1, *(change.path for change in changes)):
            assert attempt.apply(changes) == {}
    # The index holds inodes, and what git packs holds the order it found them in.
    but = (".git/index", ".git/objects/pack", ".git/objects/info", ".git/info/refs")
    assert tree(run.work, but=but) == tree(directly, but=but)
    assert undo.undo().left_alone == ()
    assert files(tree(run.work, but=())) == files(was)


NAMES = ["a", "b b", "c\nd", "e,f:g", "[id].tsx", "*", "-n", "\udcff\udcfe", "é", "\\", "$x"]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(
    lambda parts: shlex.quote("/".join([".", *parts]))
)
WAYS = (
    'p={0}; mkdir -p "${{p%/*}}"; printf x > "$p"',
    "printf '\\0\\1' > {0}",
    "printf more >> {0}",
    "mkdir -p {0}",
    "rm -d {0}",
    "rm -rf {0}",
    "mv {0} {1}",
    "ln -sT a {0}",
    "ln -sT 'b b/a' {0}",
    "ln -sT nowhere {0}",
    "ln -sT /proc/1 {0}",
    "[ -L {0} ] || [ ! -f {0} ] || chmod 755 {0}",
    "[ -L {0} ] || [ ! -f {0} ] || chmod 600 {0}",
    "rm -rf {0}; printf 'now a file' > {0}",
    "ln -PT {0} {1}",
)


def lines(*ways: str) -> st.SearchStrategy[str]:
    """Commands that change files at random; those that cannot be done do nothing."""
    line = st.builds(str.format, st.sampled_from(ways), PATHS, PATHS)
    return st.lists(line, min_size=1, max_size=12).map(
        lambda each: "".join(f"{{ {line}; }} 2> /dev/null || true\n" for line in each)
    )


@settings(
    max_examples=share(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(before=lines(*WAYS[:-1]), command=lines(*WAYS))
def test_applying_equals_running_directly_and_undo_reverts_it(
    run: Run, tmp_path_factory: pytest.TempPathFactory, before: str, command: str
) -> None:
    for name in set(os.listdir(run.work)) - {".git"}:
        path = run.work / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    bash(run.work, before)
    assert_equal_to_running_directly(run, tmp_path_factory.mktemp("apart"), command)


@needs("git")
@pytest.mark.parametrize(
    ("before", "command"),
    [
        ("mkdir d; echo 1 > d/a", "mv d e; mkdir d; mv e d/e"),
        ("echo 1 > a; ln -s a l", "rm l; cp a l; rm a; ln -s l a"),
        ("true", "mkdir -m 700 own; echo 1 > own/x; chmod 600 own/x"),
        ("git add -A; git commit -qm 1 --allow-empty", "echo 1 > x; git add x; git commit -qm 2"),
        ("echo 1 > x; git add x; git commit -qm 1", "git rm -q x; git commit -qm 2; git gc -q"),
        ("echo 1 > x; git add x; git commit -qm 1; echo 2 > x", "git stash -q"),
        ("echo 1 > x; git add x; git commit -qm 1; echo 2 > x", "git reset -q --hard"),
        ("echo 1 > x; git add x; git commit -qm 1", "git switch -qc other; git branch -D -q main"),
        ("echo 1 > x; git add x; git commit -qm 1", "rm -rf .git"),
    ],
)
def test_an_applied_change_equals_the_command_and_is_undone(
    run: Run, tmp_path: Path, before: str, command: str
) -> None:
    date = "2001-01-01T00:00Z"
    dates = f"export GIT_AUTHOR_DATE={date} GIT_COMMITTER_DATE={date}; "
    bash(run.work, f"{dates} git checkout -q -b main; {before}")
    assert_equal_to_running_directly(run, tmp_path, dates + command)


@needs("git")
def test_staging_is_a_change_and_mere_looks_are_none(run: Run) -> None:
    (run.work / "a").write_text("1\n")
    assert run("cat a; echo 1 > a; touch a; git status; mkdir d; rmdir d").changes == {}
    assert ".git/index" in run("git add a").changes


@needs("git")
def test_a_first_commit_in_a_fresh_clone_is_whole(run: Run) -> None:
    put(run.work, {".env": "KEY=1\n", "a": "1\n"})
    bash(run.work, "git add .; git commit -qm 1; touch -d 2001-01-01 .env a .git/index")
    run("echo 2 > a; git commit -qam 2", apply=True)
    assert bash(run.work, "git status --porcelain") == ""


@needs("git")
def test_a_submodule_or_a_replaced_link_hides_no_ignored_file(run: Run) -> None:
    bash(
        run.work,
        "git init -q sub; git -C sub commit -q --allow-empty -m 1; git add sub; "
        "echo '*.so' > .gitignore; ln -s elsewhere link",
    )
    for command in ("echo > sub/new", "rm link; mkdir link; echo > link/new"):
        changes = run(f"{command}; echo > a.so").changes
        assert [name for name, change in changes.items() if change.ignored] == ["a.so"]


KINDS_OF_CHANGES = {
    ".cargo": ("work", ""),
    ".git/hooks/pre-commit": ("git", ""),
    ".git/refs/heads/b": ("git", ""),
    ".mypy_cache/a": ("cache", ".mypy_cache/"),
    ".venv": ("dependency", ".venv/"),
    "__pycache__": ("cache", "__pycache__/"),
    "a.py": ("work", ""),
    "build/a/x": ("work", "build/a/"),
    "build/keep": ("work", ""),
    "env/x": ("dependency", "env/"),
    "node_modules": ("dependency", "node_modules/"),
    "old/__pycache__": ("work", "old/__pycache__/"),
    "old/__pycache__/b.pyc": ("work", "old/__pycache__/"),
    "p.db": ("work", "p.db"),
    "vendor/a/x": ("dependency", "vendor/"),
}


@needs("git")
def test_a_change_says_what_kind_of_file_it_is_of(run: Run) -> None:
    put(run.work, {".gitignore": "build/\n*.db\n__pycache__/\nvendor/\nenv/\n"})
    names = ("env/pyvenv.cfg", "build/keep", "old/__pycache__/b.pyc", ".mypy_cache/a")
    put(run.work, dict.fromkeys(names, ""))
    bash(run.work, "git add -f build/keep")
    command = (
        "mkdir -p build/a .venv node_modules/a/__pycache__ vendor/a __pycache__; echo > build/a/x;"
        "echo > build/keep; echo > p.db; echo > .venv/x; echo > node_modules/a/x; "
        "echo > vendor/a/x; echo > env/x; echo > __pycache__/a.pyc; echo > a.py; "
        "echo > .git/refs/heads/b; rm -r old/__pycache__ .mypy_cache/a; "
        "echo > .git/hooks/pre-commit; ln -s build .cargo"
    )
    changes = run(command).changes
    assert [name for name, change in changes.items() if change.is_link] == [".cargo"]
    later = [name for name, change in changes.items() if change.runs_later]
    assert later == [".git/hooks/pre-commit"]
    kinds = {name: (change.kind, change.ignored) for name, change in changes.items()}
    assert kinds == KINDS_OF_CHANGES


def test_a_tools_new_folder_is_one_change_of_many_files(run: Run) -> None:
    makes = (
        "mkdir -p e node_modules/.bin node_modules/a; touch node_modules/.bin/tsc node_modules/x"
    )
    with run.attempt(f"{makes}; chmod 0 node_modules/a") as (attempt, _):
        empty, folder = attempt.changes()
        inside = {os.path.relpath(path, folder.path) for path in attempt.files(folder)}
    assert (empty.path, empty.files, empty.ignored) == (str(run.work / "e"), 0, "")
    assert (folder.files, folder.ignored) == (2, f"{run.work}/node_modules/")
    assert inside == {".", ".bin", ".bin/tsc", "a", "x"}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("for i in $(seq 30); do : > $i; done", "more than 20 files"),
        ("mkdir -p $(printf 'd/%.0s' {1..1500})", "too deeply"),
    ],
)
def test_too_many_changes_or_folders_are_none(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    monkeypatch.setattr(layer, "MAX_CHANGES", 20)
    with run.attempt(command) as (attempt, _), pytest.raises(KodeError, match=reason):
        attempt.changes()
    assert os.listdir(run.work) == [".git"]
    assert len(os.listdir(run.made.store())) == 2  # `tmp`, and what later commands see


@needs("git")
@pytest.mark.parametrize("tree", ["linked", "work/sub", "separate", "work then sub"])
def test_a_commit_is_whole_wherever_the_records_lie(run: Run, tree: str) -> None:
    bash(
        elsewhere := run.home,
        "git clone -q work source; git -C source commit -q --allow-empty -m 1; cd work; "
        "git -c protocol.file.allow=always submodule add -q ~/source sub; "
        "echo 1 > a; git add .; git commit -qm 1; git worktree add -q ../linked; "
        "cd ..; git clone -q --separate-git-dir=records work separate",
    )
    root, _, inner = tree.partition(" then ")
    command = f"cd ./{inner}; echo 2 > b; git add b; git commit -qm 2; git tag t"
    with run.again(work=elsewhere / root).attempt(command) as (attempt, _):
        changes = attempt.changes()
        assert [change.path for change in changes if change.runs_later] == []
        assert [Path(change.path).name for change in changes if change.kind != "git"] == ["b"]
        assert attempt.apply(changes) == {}
    committed = elsewhere / root / inner
    assert bash(committed, "git log -1 --format=%s t; git status --porcelain") == "2\n"


def test_files_that_somebody_else_changed_meanwhile_are_theirs(run: Run) -> None:
    put(run.work, dict.fromkeys("abcd", "before"))
    command = "echo ours > a; rm b; echo ours > new; echo ours > d; echo ours > c"
    with run.attempt(command) as (attempt, _):
        changes = attempt.changes()
        put(run.work, dict.fromkeys(("a", "b", "new"), "theirs"))
        (run.work / "d").unlink()
        left = attempt.apply(changes)
    assert {os.path.basename(path) for path in left} == {"a", "b", "new", "d"}
    texts = {name: entry[0] for name, entry in tree(run.work).items()}
    assert texts == {"a": b"theirs", "b": b"theirs", "c": b"ours\n", "new": b"theirs"}


def test_each_folder_of_work_has_its_copy(run: Run, place: Path) -> None:
    other, sub = place / "other", run.work / "sub"
    bash(place, f"mkdir {other} {sub}")
    command = f"pwd; echo 1 > here; echo 2 > ../above; echo 3 > {other}/there; ls {other} .."
    done = run.again(work=sub, roots=(other, run.work))(command, apply=True)
    assert done.out.startswith(str(sub)), done.err
    assert {*done.changes} == {"here", "../above", os.path.relpath(other / "there", sub)}
    assert (other / "there").read_text() == "3\n"
    assert (run.work / "above").read_text() == "2\n"


def test_a_project_on_another_file_system_is_copied_over(run: Run) -> None:
    """Whole files only: what does not fit stays as it is."""
    project = Path(f"/dev/shm/kode-test-{os.getpid()}-{time.monotonic_ns()}")
    try:
        project.mkdir()
    except OSError:
        lacking("/dev/shm", "a folder in memory")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        (project / "old").write_text("old")
        run = run.again(work=project)
        run("echo new > old; ln -s old l; mkdir d; echo x > d/f; chmod 700 d/f", apply=True)
        copied = {"old": (b"new\n", 0o644), "l": ("link", "old"), "d": ("folder", 0o755)}
        assert tree(project) == {**copied, "d/f": (b"x\n", 0o700)}
        command = "echo > fits; for name in big old; do head -c 2M /dev/zero > $name; done"
        with run.attempt(command) as (attempt, _):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
            left = attempt.apply(attempt.changes())
        assert {*left} == {f"{project}/big", f"{project}/old"}
        assert sorted(os.listdir(project)) == ["d", "fits", "l", "old"]
        assert (project / "old").read_text() == "new\n"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        shutil.rmtree(project)


@pytest.fixture
def building(run: Run) -> Run:
    (run.work / ".gitignore").write_text("out/\n*.o\n")
    return run


def carried(run: Run, command: str) -> str:
    with run.attempt(command) as (attempt, done):
        attempt.carry_layer([change for change in attempt.changes() if change.ignored])
    return done.out


BUILDS = "mkdir -p out/deep; echo built > out/deep/x; echo o > a.o; echo no > a.c"
REAL = "outside: mkdir real; touch real/a.o real/c"
WALK = "find . -type c; tar cf /dev/null . 2>&1"
TURNS = ("mkdir out; echo 1 > out/x; mkdir y.o; echo 2 > y.o/z", "rm -r y.o; echo file > y.o")
TURNS_BACK = "rm y.o; mkdir y.o; echo 3 > y.o/z; rm -r out; mkdir out; echo 4 > out/w"
REPLACES = "rm -r real; mkdir real; echo 1 > real/b.o"
KEY = "outside: mkdir conf.o; echo KEY=canary-value > conf.o/.env"
MINE = "outside: mkdir out; echo mine > out/x"
ABSENT = "outside: [ ! -e out ] && [ ! -e a.o ]"


@pytest.mark.parametrize(
    ("commands", "look", "expected"),
    [
        ((BUILDS, ABSENT), "cat out/deep/x a.o; ls", "built\no\na.o\nout\n"),
        ((BUILDS, "echo again > out/deep/x; rm a.o"), "cat out/deep/x; ls", "again\nout\n"),
        ((*TURNS, TURNS_BACK), "cat y.o/z; ls out", "3\nw\n"),
        (("mkdir -p conf.o; echo 1 > conf.o/x", KEY), "cat conf.o/.env", ""),
        ((BUILDS, MINE, "outside kode"), "cat out/x", "mine\n"),
        ((BUILDS, MINE, "apply: echo 2 > out/y", "outside: grep mine out/x"), "cat out/y", "2\n"),
        # A file that is deleted leaves no name that cannot be opened.
        (("mkdir -p out/deep; echo 1 > out/deep/x", "rm out/deep/x"), WALK, ""),
        ((REAL, "rm real/a.o"), WALK, ""),
        ((REAL, REPLACES, "rm real/b.o", "outside: rm -r real"), WALK, ""),
    ],
)
def test_a_build_is_there_for_later_commands(
    building: Run, commands: tuple[str, ...], look: str, expected: str
) -> None:
    for each in commands:
        where, _, command = each.rpartition(": ")
        if each == "outside kode":
            building.made.forget()
        elif where == "outside":
            bash(building.work, command)
        elif where == "apply":
            building(command, apply=True)
        else:
            carried(building, each)
    assert carried(building, look) == expected


def test_earlier_leftovers_come_with_the_next_change(building: Run) -> None:
    carried(building, "mkdir -p out/deep node_modules; echo 1 > out/deep/x; echo 2 > out/y")
    carried(building, "echo 3 > out/y; echo 4 > node_modules/z")
    put(building.work, {"out/mine": "mine"})

    done = building("echo 5 > out/w; rm out/deep/x; echo > a.c", apply=True)

    assert [*done.changes] == ["a.c", "out/deep", "out/w", "out/y"]
    files = {"mine": (b"mine", 0o644), "w": (b"5\n", 0o644), "y": (b"3\n", 0o644)}
    assert tree(building.work / "out") == {"deep": ("folder", 0o755), **files}
    assert carried(building, "cat out/y node_modules/z") == "3\n4\n"
