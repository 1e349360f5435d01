"""Keys are not there for a command: those of the home, kode, the machine and the project."""

import os
from pathlib import Path

import pytest

from kode.sandbox.layer import Masks
from kode.sandbox.sandbox import Sandbox
from tests.needs import needs
from tests.sandbox import sandboxed
from tests.sandbox.conftest import need
from tests.sandbox.sandboxed import Run, bash, opened

CANARY = "canary-value"


def put(root: Path, *names: str, text: str = f"KEY={CANARY}\n") -> None:
    sandboxed.put(root, dict.fromkeys(names, text))


LOOKS = """
cat ~/.ssh/* ~/.kode/* ~/.aws/*; find ~ . -type f -exec cat {} +; cat /etc/shadow
grep -rs canary ~ . "$OUTSIDE"; cat .env sub/.ENV deep/er/id_ed25519; ls -a ~
tar c . | grep -a canary; find /home /root -maxdepth 3; git grep canary; git diff
cp -r . "$TMPDIR/copy"; grep -rs canary "$TMPDIR"; cat ~/.gitconfig; git config -l
cat /proc/1/cwd/.env /proc/1/root$PWD/.env /proc/1/environ /proc/*/cwd/.env; ls /proc/1/fd
for f in /proc/1/fd/* /proc/self/fd/*; do timeout 0.2 head -c 99 $f; done
"""


def test_no_command_sees_a_key(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put(run.work, ".env", "sub/.ENV", "deep/er/id_ed25519", "a b/prod.pem", "x\ny/.env")
    put(run.work, ".ssh/config", ".env.local", "conf/credentials.json", ".netrc")
    put(run.home, *".ssh/id_rsa .kode/config.json .aws/credentials .bash_history".split())
    put(run.home, *".config/gh/hosts.yml other/.env notes.txt .kode/sessions/1".split())
    text = f'[url "https://me:{CANARY}@host.test/"]\n\tinsteadOf = x\n'
    (run.home / ".gitconfig").write_text(text)
    monkeypatch.setenv("PATH", f"{run.home}:{os.environ['PATH']}")
    done = run(f"OUTSIDE={run.home}\n{LOOKS}echo end")
    for text in (CANARY, "root:", "notes.txt"):
        assert text not in done.out
    assert done.out.endswith("end\n")


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
    done = run("git config user.name; git status --porcelain; git diff --stat; git stash list")
    assert done.out.startswith("Me\n M src/a.py\n"), done.out + done.err
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
