"""The throw-away copy of the project: what a command changed in it, made real, and taken back."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kode.errors import SandboxError
from kode.sandbox import layer
from kode.sandbox import shared as stores
from kode.sandbox.attempt import Attempt
from kode.sandbox.layer import Layer, apply
from kode.sandbox.sandbox import Sandbox
from kode.tool import FileChange
from tests.effort import share
from tests.needs import lacking, needs
from tests.sandbox.conftest import need
from tests.sandbox.sandboxed import SOURCES, attempted_in, begun, opened, ran
from tests.undo.changes import step, undo_in

pytestmark = [pytest.mark.slow, pytest.mark.sampled(of=2)]

Tree = dict[str, tuple[object, ...]]


@pytest.fixture(autouse=True)
def _layered(made: Sandbox) -> None:
    need(made, "layered")


def tree(root: Path, *, but: tuple[str, ...] = ()) -> Tree:
    """Everything below a folder: kind, rights and content."""
    found: Tree = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            shown = os.fsdecode(os.path.relpath(path, os.fsencode(root)))
            if shown.startswith(but):
                continue
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                found[shown] = ("link", os.fsdecode(os.readlink(path)))
            elif stat.S_ISDIR(status.st_mode):
                found[shown] = ("folder",)
            else:
                with open(path, "rb") as file:
                    found[shown] = (stat.S_IMODE(status.st_mode), file.read())
    return found


def tried(made: Sandbox, command: str) -> Attempt:
    """A command that has run, its changes still in the copy. `close` it."""
    attempt = begun(made, "layered")
    done = ran(attempt.wrap(("/bin/bash", "-c", command)), made.place.cwd)
    assert done.code == 0, done.err
    return attempt


def _git(cwd: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *who, *words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


NAMES = ["a", "b b", "c\nd", "e,f:g", "[id].tsx", "*", "-n", "\udcff\udcfe", "é", "\\", "$x"]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(lambda parts: "/".join(parts))
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, st.sampled_from(["", "x", "other\n", "\0\1"])),
        st.tuples(st.just("append"), PATHS, st.just("more")),
        st.tuples(st.just("mkdir"), PATHS, st.just("")),
        st.tuples(st.just("remove"), PATHS, st.just("")),
        st.tuples(st.just("remove_all"), PATHS, st.just("")),
        st.tuples(st.just("rename"), PATHS, PATHS),
        st.tuples(st.just("link"), PATHS, st.sampled_from(["a", "b b/a", "nowhere", "/usr/bin"])),
        st.tuples(st.just("hard"), PATHS, PATHS),
        st.tuples(st.just("chmod"), PATHS, st.sampled_from(["0o644", "0o755", "0o600"])),
        st.tuples(st.just("replace_folder"), PATHS, st.just("now a file")),
    ),
    min_size=1,
    max_size=12,
)

OPERATE = """
import os, shutil, sys
def fs(text): return os.fsencode(text)
def operate(steps):
    for name, path, more in steps:
        path = fs(path)
        try:
            if name in ('write', 'append'):
                os.makedirs(os.path.dirname(path) or b'.', exist_ok=True)
                with open(path, 'wb' if name == 'write' else 'ab') as file: file.write(more.encode())
            elif name == 'mkdir': os.makedirs(path)
            elif name == 'remove': os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
            elif name == 'remove_all': shutil.rmtree(path)
            elif name == 'rename': shutil.move(os.fsdecode(path), more)
            elif name == 'link': os.symlink(more, path)
            elif name == 'hard': os.link(path, fs(more), follow_symlinks=False)
            elif name == 'chmod' and os.path.isfile(path) and not os.path.islink(path): os.chmod(path, int(more, 8))
            elif name == 'replace_folder':
                if os.path.isdir(path) and not os.path.islink(path): shutil.rmtree(path)
                with open(path, 'wb') as file: file.write(more.encode())
        except (OSError, shutil.Error): pass
"""  # fmt: skip  # noqa: E501


def operate(work: Path, steps: list[tuple[str, str, str]]) -> None:
    code = f"{OPERATE}\noperate({steps!r})"
    subprocess.run([sys.executable, "-I", "-c", code], cwd=work, check=True)


def emptied(work: Path) -> None:
    for name in os.listdir(work):
        path = work / name
        if name == ".git":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@settings(
    max_examples=share(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(before=OPERATIONS, steps=OPERATIONS)
@pytest.mark.slow
def test_applying_equals_running_directly_and_undo_reverts_it(
    made: Sandbox,
    work: Path,
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, str, str]],
    steps: list[tuple[str, str, str]],
) -> None:
    emptied(work)
    operate(work, before)
    _age(work)
    was = tree(work)
    directly = tmp_path_factory.mktemp("directly") / "work"
    shutil.copytree(work, directly, symlinks=True)
    operate(directly, steps)

    code = f"{OPERATE}\noperate({steps!r})"
    attempt = begun(made, "layered")
    try:
        done = ran(attempt.wrap((os.path.realpath(sys.executable), "-I", "-c", code)), work)
        assert done.code == 0, done.err
        assert tree(work) == was
        changes = attempt.changes()
        undo = undo_in(tmp_path_factory.mktemp("undo"))
        with step(undo, 1, *(one.path for one in changes)):
            assert attempt.apply(changes) == {}
    finally:
        attempt.close()

    assert tree(work) == tree(directly)
    assert undo.undo().left_alone == ()
    assert files(tree(work)) == files(was)


def _age(work: Path) -> None:
    """What somebody changed just now is theirs: lets the clock of the file system move on."""
    time.sleep(0.02)


def files(found: Tree) -> Tree:
    """Undo is for files and links; folders that become empty are nobody's."""
    return {path: one for path, one in found.items() if one != ("folder",)}


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
)  # fmt: skip
def test_an_applied_change_equals_the_command_and_is_undone(
    made: Sandbox, work: Path, place: Path, before: str, command: str
) -> None:
    dates = {"GIT_AUTHOR_DATE": "2001-01-01T00:00Z", "GIT_COMMITTER_DATE": "2001-01-01T00:00Z"}
    _git(work, "checkout", "-q", "-b", "main")
    env = {**os.environ, **dates}
    subprocess.run(["/bin/bash", "-ec", before], cwd=work, check=True, env=env)
    time.sleep(0.02)
    was = tree(work)
    directly = place / "directly"
    shutil.copytree(work, directly, symlinks=True)
    subprocess.run(["/bin/bash", "-ec", command], cwd=directly, check=True, env=env)

    exports = "; ".join(f"export {name}={value}" for name, value in dates.items())
    attempt = tried(made, f"set -e; {exports}; {command}")
    assert tree(work) == was
    undo = undo_in(place / "undo")
    changes = attempt.changes()
    with step(undo, 1, *(one.path for one in changes)):
        assert attempt.apply(changes) == {}
    attempt.close()

    # The index holds inodes, and what git packs holds the order it found them in.
    but = (".git/index", ".git/objects/pack", ".git/objects/info", ".git/info/refs")
    assert tree(work, but=but) == tree(directly, but=but)
    assert undo.undo().left_alone == ()
    assert files(tree(work)) == files(was)


LONG_AGO = (1_000_000_000, 1_000_000_000)


@needs("git")
def test_staging_is_a_change_and_mere_looks_are_none(made: Sandbox, work: Path) -> None:
    (work / "a").write_text("1\n")
    looks = "cat a; echo 1 > a; touch a; git status; mkdir d; rmdir d"
    assert attempted_in(made, "layered", looks).changes == ()
    assert (".git/index", "created", "") in attempted_in(made, "layered", "git add a").changes


@needs("git")
def test_a_first_commit_in_a_fresh_clone_is_whole(made: Sandbox, work: Path) -> None:
    for name in (".env", "a"):
        (work / name).write_text("KEY=1\n")
        os.utime(work / name, LONG_AGO)
    _git(work, "add", ".")
    _git(work, "commit", "-qm", "1")
    os.utime(work / ".git" / "index", LONG_AGO)

    attempted_in(made, "layered", "echo 2 > a; git commit -qam 2", apply=True)
    assert _git(work, "status", "--porcelain") == ""


@needs("git")
def test_a_submodule_or_a_replaced_link_hides_no_ignored_file(made: Sandbox, work: Path) -> None:
    (work / ".gitignore").write_text("*.so\n")
    _git(work, "init", "-q", "sub")
    _git(work / "sub", "commit", "-q", "--allow-empty", "-m", "1")
    _git(work, "add", "sub")
    (work / "link").symlink_to("elsewhere")
    for command in ("echo > sub/new", "rm link; mkdir link; echo > link/new"):
        done = attempted_in(made, "layered", f"{command}; echo > a.so")
        assert ("a.so", "created", "a.so") in done.changes
        assert {name for name, _, ignored in done.changes if ignored} == {"a.so"}


@needs("git")
def test_a_change_says_what_kind_of_file_it_is_of(made: Sandbox, work: Path) -> None:
    (work / ".gitignore").write_text("build/\n*.db\n__pycache__/\nvendor/\nenv/\n")
    for name in ("env/pyvenv.cfg", "build/keep", "old/__pycache__/b.pyc", ".mypy_cache/a"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("")
    _git(work, "add", "-f", "build/keep")
    attempt = tried(
        made,
        "mkdir -p build/a .venv node_modules/a/__pycache__ vendor/a __pycache__; echo > build/a/x;"
        "echo > build/keep; echo > p.db; echo > .venv/x; echo > node_modules/a/x; "
        "echo > vendor/a/x; echo > env/x; echo > __pycache__/a.pyc; echo > a.py; "
        "echo > .git/refs/heads/b; rm -r old/__pycache__ .mypy_cache/a; "
        "echo > .git/hooks/pre-commit; ln -s build .cargo",
    )
    changes = {os.path.relpath(one.path, work): one for one in attempt.changes()}
    attempt.close()
    assert [name for name, one in changes.items() if one.is_link] == [".cargo"]
    later = [name for name, one in changes.items() if one.runs_later]
    assert later == [".git/hooks/pre-commit"]
    kinds = {
        name: (one.kind, one.ignored.removeprefix(f"{work}/")) for name, one in changes.items()
    }
    assert kinds == {
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


@pytest.fixture
def elsewhere(home: Path, work: Path) -> Path:
    """A folder with trees whose records lie elsewhere: `linked`, `work/sub`, `separate`."""
    (work / "a").write_text("1\n")
    _git(home, "clone", "-q", str(work), "source")
    _git(home / "source", "commit", "-q", "--allow-empty", "-m", "1")
    _git(work, "submodule", "add", "-q", str(home / "source"), "sub")
    _git(work, "add", ".")
    _git(work, "commit", "-qm", "1")
    _git(work, "worktree", "add", "-q", str(home / "linked"))
    _git(home, "clone", "-q", f"--separate-git-dir={home}/records", str(work), "separate")
    return home


@needs("git")
@pytest.mark.parametrize("tree", ["linked", "work/sub", "separate", "work then sub"])
def test_a_commit_is_whole_wherever_the_records_lie(elsewhere: Path, tree: str) -> None:
    root, _, inner = tree.partition(" then ")
    made = opened(elsewhere, elsewhere / root)
    attempt = tried(made, f"cd ./{inner}; echo 2 > b; git add b; git commit -qm 2; git tag t")
    changes = attempt.changes()
    assert [one.path for one in changes if one.runs_later] == []
    assert [Path(one.path).name for one in changes if one.kind != "git"] == ["b"]
    assert attempt.apply(changes) == {}
    attempt.close()
    committed = elsewhere / root / inner
    assert _git(committed, "log", "-1", "--format=%s", "t") == "2\n"
    assert _git(committed, "status", "--porcelain") == ""


@needs("git")
@pytest.mark.parametrize("named", ["work/.git", "work/.git/worktrees/linked", "records"])
def test_a_tree_naming_a_foreign_repository_cannot_write_there(elsewhere: Path, named: str) -> None:
    evil = elsewhere / "evil"
    evil.mkdir()
    (evil / ".git").write_text(f"gitdir: {elsewhere}/{named}\n")
    before = tree(elsewhere, but=(".kode",))
    done = attempted_in(
        opened(elsewhere, evil), "layered",
        f"echo > a; git add -A; git commit -qm 2; echo > {elsewhere}/{named}/HEAD; "
        f"mkdir -p {elsewhere}/{named}/hooks; echo > {elsewhere}/{named}/hooks/pre-commit",
        apply=True,
    )  # fmt: skip
    assert done.changes == (("a", "created", ""),)
    assert tree(elsewhere, but=("evil/a", ".kode")) == before


def test_a_tools_new_folder_is_one_change_of_many_files(made: Sandbox, work: Path) -> None:
    attempt = tried(
        made,
        "mkdir -p p/node_modules/.bin p/node_modules/a; chmod 0 p/node_modules/a; mkdir e; "
        "echo > p/node_modules/.bin/tsc; echo > p/node_modules/x",
    )
    empty, folder = attempt.changes()
    assert (empty.path, empty.files, empty.ignored) == (str(work / "e"), 0, "")
    assert (folder.path, folder.files) == (str(work / "p/node_modules"), 2)
    assert folder.ignored == f"{folder.path}/"
    inside = {os.path.relpath(path, folder.path) for path in attempt.files(folder)}
    assert inside == {".", ".bin", ".bin/tsc", "a", "x"}
    attempt.close()


def test_files_that_somebody_else_changed_meanwhile_are_theirs(made: Sandbox, work: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (work / name).write_text("before")
    time.sleep(0.02)
    attempt = tried(made, "echo ours > a; rm b; echo ours > new; echo ours > d; echo ours > c")
    changes = attempt.changes()
    for name in ("a", "b", "new"):
        (work / name).write_text("theirs")
    (work / "d").unlink()
    left = attempt.apply(changes)
    attempt.close()
    assert {os.path.basename(path) for path in left} == {"a", "b", "new", "d"}
    assert [(work / n).read_text() for n in ("a", "b", "c", "new")] == [
        "theirs", "theirs", "ours\n", "theirs",
    ]  # fmt: skip
    assert not (work / "d").exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("for i in $(seq 30); do : > $i; done", "more than 20 files"),
        ("mkdir -p $(printf 'd/%.0s' {1..1500})", "too deeply"),
    ],
)
def test_too_many_changes_or_folders_are_none(
    made: Sandbox, work: Path, monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    monkeypatch.setattr(layer, "MAX_CHANGES", 20)
    attempt = tried(made, command)
    with pytest.raises(SandboxError, match=reason):
        attempt.changes()
    attempt.close()
    assert os.listdir(work) == [".git"]
    assert not any(one.holder.exists() for one in attempt.layers)


def test_each_folder_of_work_has_its_copy(home: Path, work: Path, place: Path) -> None:
    other = place / "other"
    (work / "sub").mkdir()
    other.mkdir()
    made = opened(home, work / "sub", roots=(other, work))
    attempt = begun(made, "layered")
    command = f"pwd; echo 1 > here; echo 2 > ../above; echo 3 > {other}/there; ls {other} .."
    done = ran(attempt.wrap(("/bin/bash", "-c", command)), work / "sub")
    assert done.out.startswith(str(work / "sub")), done.err
    changes = attempt.changes()
    names = {one.path for one in changes}
    assert names == {str(work / "sub" / "here"), str(work / "above"), str(other / "there")}
    assert attempt.apply(changes) == {}
    attempt.close()
    assert (other / "there").read_text() == "3\n"
    assert (work / "above").read_text() == "2\n"


def test_a_project_on_another_file_system_is_copied_over(home: Path, work: Path) -> None:
    """kode's folder on the disk, the project in memory."""
    with memory() as project:
        (project / "old").write_text("old")
        made = opened(home, project)
        need(made, "layered")
        attempt = begun(made, "layered")
        command = "echo new > old; ln -s old l; mkdir -p d/e; echo x > d/e/f; chmod 700 d/e/f"
        assert ran(attempt.wrap(("/bin/bash", "-c", command)), project).code == 0
        assert attempt.apply(attempt.changes()) == {}
        attempt.close()
        assert tree(project) == {
            "old": (0o644, b"new\n"), "l": ("link", "old"), "d": ("folder",), "d/e": ("folder",),
            "d/e/f": (0o700, b"x\n"),
        }  # fmt: skip


def test_a_full_disk_leaves_nothing_half_applied(made: Sandbox, work: Path) -> None:
    if os.getuid() != 0:
        lacking("root", "to mount a small file system")
    code = f"""
import os, sys
sys.path.insert(0, {str(SOURCES)!r})
from pathlib import Path
from kode.tool import FileChange
from kode.sandbox import layer
small = Path({str(work)!r}) / 'small'
one = layer.make_layer(Path({str(work.parent)!r}), small, None)
(one.upper / 'big').write_bytes(b'x' * 3_000_000)
(one.upper / 'fits').write_text('fits')
(one.upper / 'old').write_bytes(b'y' * 3_000_000)
wanted = [FileChange(path=str(small / name), change=change) for name, change in
          (('big', 'created'), ('fits', 'created'), ('old', 'changed'))]
left = layer.apply(one, wanted, 2 ** 62, lambda path: False)
print(sorted(os.path.basename(path) for path in left), sorted(os.listdir(small)),
      (small / 'old').read_text())
"""
    (work / "small").mkdir()
    mount = f"mount -t tmpfs -o size=1m none {work}/small && echo was > {work}/small/old"
    done = subprocess.run(
        ["unshare", "-m", "bash", "-ec", f'{mount}; exec "$0" -c "$1"', sys.executable, code],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "['big', 'old'] ['fits', 'old'] was\n\n", done.stderr


@contextlib.contextmanager
def memory() -> Iterator[Path]:
    """A folder on a file system of its own that is there anyway."""
    folder = Path(f"/dev/shm/kode-test-{os.getpid()}-{time.monotonic_ns()}")
    try:
        folder.mkdir()
    except OSError:
        lacking("/dev/shm", "a folder in memory")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def building(made: Sandbox, work: Path) -> Sandbox:
    (work / ".gitignore").write_text("out/\n*.o\n")
    return made


def carried(made: Sandbox, command: str) -> str:
    attempt = begun(made, "layered")
    done = ran(attempt.wrap(("/bin/bash", "-c", command)), made.place.cwd)
    attempt.carry_layer([one for one in attempt.changes() if one.ignored])
    attempt.close()
    return done.out


def test_builds_are_used_and_cleaned_by_later_commands(building: Sandbox, work: Path) -> None:
    carried(building, "mkdir -p out/deep; echo built > out/deep/x; echo o > a.o; echo no > a.c")
    assert carried(building, "cat out/deep/x a.o; ls") == "built\no\na.o\nout\n"
    carried(building, "echo again > out/deep/x; rm a.o")
    assert carried(building, "cat out/deep/x; ls") == "again\nout\n"
    carried(building, "rm -r out")
    assert carried(building, "ls") == ""
    assert sorted(os.listdir(work)) == [".git", ".gitignore"]


@pytest.mark.parametrize("removed_later", [False, True])
@pytest.mark.parametrize(
    "commands",
    [
        ["mkdir -p out/deep; echo 1 > out/deep/x", "rm out/deep/x"],
        ["mkdir __pycache__; echo 1 > __pycache__/x.pyc", "find . -name '*.pyc' -delete"],
        ["rm real/a.o"],
        ["rm -r real; mkdir real; echo 1 > real/b.o", "rm real/b.o"],
        ["echo 1 > real/b.o; rm real/a.o", "rm real/b.o; echo 2 > real/a.o", "rm real/a.o"],
    ],
)
def test_a_deleted_file_leaves_no_broken_name(
    building: Sandbox, work: Path, commands: list[str], removed_later: bool
) -> None:
    (work / "real").mkdir()
    for name in ("a.o", "c"):
        (work / "real" / name).write_text("")
    for command in commands:
        carried(building, command)
    if removed_later:
        shutil.rmtree(work / "real")
    broken = "find . -type c; tar cf /dev/null . 2>&1"
    assert carried(building, broken) == ""


def test_a_folder_that_was_built_becomes_a_file_and_back(building: Sandbox) -> None:
    carried(building, "mkdir out; echo 1 > out/x; mkdir y.o; echo 2 > y.o/z")
    carried(building, "rm -r y.o; echo file > y.o")
    assert carried(building, "cat y.o out/x") == "file\n1\n"
    carried(building, "rm y.o; mkdir y.o; echo 3 > y.o/z; rm -r out; mkdir out; echo 4 > out/w")
    assert carried(building, "cat y.o/z; ls out") == "3\nw\n"


def test_builds_are_forgotten_after_a_command_outside(building: Sandbox, work: Path) -> None:
    carried(building, "mkdir out; echo inside > out/x")
    (work / "out").mkdir()
    (work / "out" / "x").write_text("outside\n")
    building.forget()
    assert carried(building, "cat out/x") == "outside\n"


def test_earlier_leftovers_come_with_the_next_change(building: Sandbox, work: Path) -> None:
    carried(building, "mkdir -p out/deep node_modules; echo 1 > out/deep/x; echo 2 > out/y")
    carried(building, "echo 3 > out/y; echo 4 > node_modules/z")
    (work / "out").mkdir()
    (work / "out" / "mine").write_text("mine")

    attempt = tried(building, "echo 5 > out/w; rm out/deep/x; echo > a.c")
    changes = attempt.changes()
    names = [os.path.relpath(one.path, work) for one in changes]
    assert names == ["a.c", "out/deep", "out/w", "out/y"]
    assert attempt.apply(changes) == {}
    attempt.close()

    assert tree(work / "out") == {
        "deep": ("folder",),
        "mine": (0o644, b"mine"),
        "w": (0o644, b"5\n"),
        "y": (0o644, b"3\n"),
    }
    assert carried(building, "cat out/y node_modules/z") == "3\n4\n"


def test_files_that_a_person_changed_since_are_not_replaced(building: Sandbox, work: Path) -> None:
    carried(building, "mkdir out; echo 1 > out/x")
    (work / "out").mkdir()
    (work / "out" / "x").write_text("mine")
    attempt = tried(building, "echo 2 > out/y")
    assert attempt.apply(attempt.changes()) == {}
    attempt.close()
    assert (work / "out" / "x").read_text() == "mine"


def test_a_key_file_is_masked_whatever_was_carried_over_there(
    building: Sandbox, work: Path
) -> None:
    carried(building, "mkdir -p out/.env; echo 1 > out/.env/x; mkdir -p conf.o; echo 1 > conf.o/x")
    (work / "conf.o").mkdir()
    (work / "conf.o" / ".env").write_text("KEY=canary-value")
    assert "canary" not in carried(building, "cat conf.o/.env; cat conf.o/x")


def test_leftovers_of_killed_processes_go_and_used_ones_stay(made: Sandbox, work: Path) -> None:
    store = made.store()
    assert store is not None
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from kode.sandbox import layer, shared as stores\n"
        "store = stores.open_store([Path(sys.argv[2])])\n"
        "one = layer.make_layer(store.folder, Path(sys.argv[3]), None)\n"
        "(one.upper / 'd').mkdir(); (one.upper / 'd').chmod(0)\n"
        "print(store.folder, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(SOURCES), str(store.parent), str(work)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    abandoned = Path(done.stdout.strip())
    assert abandoned.is_dir()

    again = stores.open_store([store.parent])

    assert again is not None
    assert not abandoned.exists()
    assert store.is_dir()
    again.close()
    assert not again.folder.exists()


def test_stores_opened_together_do_not_remove_each_other(place: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from kode.sandbox import layer, shared as stores\n"
        "for _ in range(40):\n"
        "    store = stores.open_store([Path(sys.argv[2])])\n"
        "    assert store is not None and store.folder.is_dir()\n"
        "    store.close()"
    )
    argv = [sys.executable, "-c", code, str(SOURCES), str(place / "stores")]
    both = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(one.communicate()[1], one.returncode) for one in both] == [("", 0)] * 4


def test_a_place_that_others_could_write_in_is_rejected(place: Path) -> None:
    (place / "open").mkdir()
    (place / "open").chmod(0o777)
    (place / "link").symlink_to(place)
    assert stores.open_store([place / "open", place / "link"]) is None
    found = stores.open_store([place / "open", place / "own"])
    assert found is not None
    assert found.folder.parent == place / "own"
    found.close()


def test_an_attempt_that_is_closed_leaves_nothing(made: Sandbox, work: Path) -> None:
    store = made.store()
    assert store is not None
    attempt = tried(made, "mkdir d; echo 1 > d/x; chmod 000 d")
    attempt.close()
    assert os.listdir(store) == ["tmp"]  # that of all commands
    assert os.listdir(work) == [".git"]


def test_a_change_without_its_project_is_left_with_a_reason(tmp_path: Path) -> None:
    gone = Layer(root=tmp_path / "gone", holder=tmp_path / "layer")
    made = FileChange(path=str(gone.root / "a"), change="created")

    left = apply(gone, [made], time.time_ns(), lambda path: False)

    assert list(left) == [made.path]
