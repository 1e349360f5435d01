"""Keys are not there for a command: those of the home, kode, the machine and the project."""

import os
import subprocess
from pathlib import Path

import pytest

from kode.sandbox import masks
from kode.sandbox.masks import Masks, settle_indexes
from kode.sandbox.sandbox import Sandbox
from kode.workplace import GitFolder
from tests.needs import lacking, needs
from tests.sandbox import sandboxed
from tests.sandbox.conftest import need
from tests.sandbox.sandboxed import Run, bash, opened
from tests.undo.changes import plant_programs
from tests.workplaces import workplace

CANARY = "canary-value"


def put(root: Path, *names: str, text: str = f"KEY={CANARY}\n") -> None:
    sandboxed.put(root, dict.fromkeys(names, text))


@pytest.fixture
def secrets(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Keys wherever they may lie."""
    put(run.work, ".env", "sub/.ENV", "deep/er/id_ed25519", "a b/prod.pem", "x\ny/.env")
    put(run.work, ".ssh/config", ".env.local", "conf/credentials.json", ".netrc")
    put(run.home, *".ssh/id_rsa .kode/config.json .aws/credentials .bash_history".split())
    put(run.home, *".config/gh/hosts.yml other/.env notes.txt .kode/sessions/1".split())
    text = f'[url "https://me:{CANARY}@host.test/"]\n\tinsteadOf = x\n'
    (run.home / ".gitconfig").write_text(text)
    monkeypatch.setenv("PATH", f"{run.home}:{os.environ['PATH']}")
    return run


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/* ~/.kode/* ~/.aws/*; find ~ . -type f -exec cat {{}} +; cat /etc/shadow",
        "grep -rs canary ~ . {home}; cat .env sub/.ENV deep/er/id_ed25519; ls -a ~",
        "tar c . | grep -a canary; find /home /root -maxdepth 3; git grep canary; git diff",
        'cp -r . "$TMPDIR/copy"; grep -rs canary "$TMPDIR"; cat ~/.gitconfig; git config -l',
        "cat /proc/1/cwd/.env /proc/1/root$PWD/.env /proc/1/environ /proc/*/cwd/.env; ls /proc/1/fd"
        "; for f in /proc/1/fd/* /proc/self/fd/*; do timeout 0.2 head -c 99 $f; done",
    ],
)
def test_no_command_sees_a_key(secrets: Run, command: str) -> None:
    done = secrets(command.format(home=secrets.home))
    for text in (CANARY, "root:", "notes.txt"):
        assert text not in done.out


@pytest.mark.parametrize("where", ["/srv", "/tmp", "/var/tmp"])
def test_kode_s_folder_is_hidden_wherever_it_lies(run: Run, where: str) -> None:
    kode_home = Path(where) / f"kode-test-home-{os.getpid()}"
    try:
        kode_home.mkdir()
    except OSError:
        lacking(where, "not writable")
    try:
        put(kode_home, "config.json")
        made = Sandbox(place=workplace(run.work, home=kode_home))
        done = Run(run.kind, made)(f"cat {kode_home}/*; echo x > {kode_home}/planted")
        assert CANARY not in done.out
        assert not (kode_home / "planted").exists()
    finally:
        subprocess.run(["rm", "-rf", str(kode_home)], check=True)


def test_a_key_created_while_its_folder_is_read_hides_later(made: Sandbox, work: Path) -> None:
    """Many times, since the clock of a file system ticks slowly."""
    for at in range(50):
        (work / str(at)).mkdir()
        made.masks.paths()
        put(work, f"{at}/.env", f"{at}/was")
        (work / f"{at}/was").rename(work / f"{at}/server.key")
        assert {work / f"{at}/.env", work / f"{at}/server.key"} <= {*made.masks.paths()}


@needs("git")
def test_git_takes_a_hidden_file_that_it_tracks_for_unchanged(run: Run) -> None:
    put(run.work, ".env", "sub/.env", "src/a.py")
    # As in a fresh clone: git looks into what is as new as its index.
    old = "touch -d 2001-01-01 .env */.env */* .git/index"
    bash(run.work, f"git add -A; {old}; git add -A; git commit -qm 1; {old}; echo 1 > src/a.py")
    done = run("git status --porcelain; git diff --stat; git stash list")
    assert done.out.startswith(" M src/a.py\n"), done.out + done.err
    assert ".env" not in done.out


def test_a_path_denied_by_a_rule_is_hidden_too(run: Run) -> None:
    put(run.work, "notes/deep/plan.txt")
    put(run.work, "other.txt", text="seen")
    denying = run.again(denied=lambda path: "/notes" in path)
    assert denying("cat notes/deep/plan.txt other.txt; grep -r canary .").out == "seen"


def test_work_in_the_home_itself_still_hides_keys(home: Path) -> None:
    (home / "here").write_text("seen")
    run = need(opened(home, home), "plain")
    done = run("cat .ssh/id_rsa .kode/config.json here; echo x > new")
    assert done.out == "seen"
    assert not (home / "new").exists()


def masked(known: Masks) -> list[str]:
    return sorted(str(path.relative_to(known.roots[0])) for path in known.paths())


def test_files_with_keys_are_found_where_people_keep_them(tmp_path: Path) -> None:
    root = tmp_path / "p"
    put(root, ".env", "deploy/prod.pem", "src/main.py", ".ssh/config", "a/b/.ENV.local")
    put(root, "node_modules/a/.env", "build/key.pem", ".git/objects/x.pem")
    put(tmp_path, "outside/.env")
    os.symlink(tmp_path / "outside", root / "link")
    os.symlink(root, root / "loop")
    assert masked(Masks([root])) == [".env", ".ssh", "a/b/.ENV.local", "deploy/prod.pem"]
    assert masked(Masks([tmp_path / "gone"])) == []


@needs("git")
def test_refreshing_an_index_runs_nothing_a_repository_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, proof = tmp_path / "work", tmp_path / "proof"
    put(work, ".env", "a.py")
    monkeypatch.setenv("HOME", str(tmp_path))
    who = "-c user.name=A -c user.email=a@example.org"
    bash(
        work,
        f"git init -q; git add -A; git {who} commit -qm 1; git config include.path ../included; "
        "touch -d 2001-01-01 .env a.py .git/index",
    )
    put(work, ".gitattributes", text="* filter=evil diff=evil merge=evil\n")
    index = work / ".git" / "index"
    plant_programs(work, proof, work / "included")

    settle_indexes([work / ".env"], ())

    assert index.stat().st_mtime > 1_000_000_000  # git has refreshed it
    assert not proof.exists()
    subprocess.run(["git", "status"], cwd=work, capture_output=True, check=False)
    assert proof.exists()  # the repository is as hostile as it is meant to be


def test_git_is_not_started_for_a_foreign_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []
    monkeypatch.setattr(masks, "run_git", lambda root, arguments: started.append(root))
    put(tmp_path, "file/.git/index", "file/.env", "elsewhere/index", "known/.git", "known/.env")
    put(tmp_path, *(f"{kind}/.env" for kind in ("pipe", "link", "folder", "worktree")))
    for kind in ("pipe", "link"):
        (tmp_path / kind / ".git").mkdir()
    os.mkfifo(tmp_path / "pipe/.git/index")
    os.symlink(tmp_path / "elsewhere/index", tmp_path / "link/.git/index")
    os.symlink(tmp_path / "elsewhere", tmp_path / "folder/.git")
    (tmp_path / "worktree/.git").write_text(f"gitdir: {tmp_path}/elsewhere\n")
    tree = GitFolder(path=f"{tmp_path}/elsewhere", worktree=f"{tmp_path}/known")

    settle_indexes(sorted(tmp_path.glob("*/.env")), (tree,))

    assert started == [tmp_path / "file", tmp_path / "known"]
