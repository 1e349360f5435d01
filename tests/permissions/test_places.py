"""Where care is needed: what holds keys, what runs later, what steers agents, what is outside."""

import json
import subprocess
from pathlib import Path

from kode.permissions import places
from kode.permissions.places import is_secret, runs_later, steers_agents
from tests.needs import needs
from tests.permissions.calls import decided
from tests.tables import for_each
from tests.workplaces import ground

RUN_LATER = [name.replace("*", "x") for name in places.names("runs_later")]
DATA = json.loads((Path(__file__).parent / "data" / "places.json").read_text())
HOME = ground(Path("/home/user/p"), Path("/home/user"))


@for_each("path", DATA["keys"])
@for_each("home", ["/root", "/home/user", "/", "/root/app"])
def test_a_file_with_keys_is_one_wherever_the_home_is(path, home):
    assert is_secret(f"/root/app/{path}", ground(Path("/root/app"), Path(home)))


def test_the_home_of_root_is_secret_to_others():
    assert is_secret("/root/notes.txt", HOME)


@for_each("path", DATA["no_keys"])
def test_an_example_or_a_program_is_no_file_with_keys(path):
    assert not is_secret(f"/root/app/{path}", ground(Path("/root/app"), Path("/root")))


def test_a_folder_named_like_a_key_file_is_none(tmp_path):
    (tmp_path / "credentials").mkdir()

    assert not is_secret(str(tmp_path / "credentials"), ground(tmp_path, Path("/home/user")))
    assert not places.is_named_like_keys(str(tmp_path / "credentials"), is_folder=True)


@for_each("path", [*RUN_LATER, *DATA["run_by_git"]])
def test_files_that_run_later_are_known_in_any_form(path):
    for mode in ("auto-edit", "full"):
        assert decided(mode, "write_file", path).outcome == "ask"
    assert runs_later(f"/p/vendor/lib/{path}")
    assert runs_later(f"/p/{path.upper()}")
    assert runs_later(f"/p/{path.replace('s', 'ſ')}")


@for_each("path", DATA["ordinary"])
def test_an_ordinary_file_of_a_project_is_none_of_these(path):
    path = f"/home/user/p/{path}"
    assert (runs_later(path), is_secret(path, HOME), steers_agents(path)) == (False,) * 3


@for_each("path", DATA["steers"])
def test_orders_for_agents_are_known_by_name(path):
    assert steers_agents(f"/p/{path}")
    assert steers_agents(f"/p/sub/{path.lower()}")


# Of a repository's `.git`, a command's changes are kept only where git runs nothing of them.

RUN_OR_FETCHED = (
    "hooks/pre-commit config config.worktree commondir info/attributes info/exclude "
    "modules/x/config rebase-merge/git-rebase-todo rebase-apply/0001 sequencer/todo "
    "objects/info/alternates objects/info/http-alternates remotes/origin branches/main shallow "
    "refs/replace/abc "
    "refs/remotes/origin/main refs/bisect/bad BISECT_RUN worktrees/w/config worktrees/w/commondir "
    "worktrees/w/gitdir fsmonitor--daemon.ipc lfs/objects/x svn/.metadata anything"
).split()


@for_each("name", RUN_OR_FETCHED)
@for_each("folder", ["/p/.git/", "/p/sub/.GIT/"])
def test_a_name_outside_gits_records_is_asked_about(folder, name):
    assert runs_later(folder + name)


EVERYDAY = """
git init -q; find .git -type f -exec sha1sum {} + | sort > ../before; git checkout -q -b main
echo one > a; git add a; git commit -q -m one; git checkout -q -b other
echo two > a; git add a; git commit -q -m two; echo three > a; git stash; git stash pop
git commit -q -a -m three; git checkout -q main; echo four > a; git commit -q -a -m four
git commit -q --amend -m again; ! git merge other; git checkout --theirs a
git commit -q -a -m merged; git tag v1; git revert --no-edit -m 1 HEAD; ! git cherry-pick other
git cherry-pick --abort; git gc -q; git branch -D other
find .git -type f -exec sha1sum {} + | sort > ../after
"""


@needs("git")
def test_everyday_git_changes_nothing_but_records(tmp_path):
    (tmp_path / "p").mkdir()
    who = ("user.name=A", "user.email=a@b.c", "init.defaultBranch=main")
    script = f'git() {{ command git {" ".join(f"-c {it}" for it in who)} "$@"; }}; {EVERYDAY}'
    subprocess.run(["bash", "-ec", script], cwd=tmp_path / "p", capture_output=True, check=True)

    before, after = ({*(tmp_path / it).read_text().splitlines()} for it in ("before", "after"))
    changed = [str(tmp_path / "p" / line.split("  ", 1)[1]) for line in before ^ after]
    assert changed
    assert [path for path in changed if runs_later(path)] == []
