"""Which files of a project run later because a setting names them."""

import json
import os
import shlex
from pathlib import Path

import pytest

from kode.permissions import places
from kode.sandbox.named import find_named
from tests.needs import needs
from tests.sandbox.sandboxed import bash, put
from tests.tables import for_each

pytestmark = [needs("git")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (tmp_path / "p").mkdir()
    bash(tmp_path / "p", "git init -q .")
    return tmp_path / "p"


def named(root: Path) -> set[str]:
    return {os.path.relpath(path, root) for path in find_named(root)}


@for_each(
    ("key", "value", "expected"),
    [
        ("core.hooksPath", "tools/hooks", "tools/hooks"),
        ("core.hooksPath", "{root}/hooks", "hooks"),
        ("filter.x.process", "sh -c 'exec \"$(git rev-parse --show-toplevel)/bin/f\"'", "bin/f"),
        ("credential.https://example.org.helper", "!sh tools/key", "tools/key"),
        ("alias.st", "!cd tools && ./st.sh", "st.sh"),
        ("include.path", "../settings/git", "settings/git own"),
        ("a-later-git.runs", "tools/new", "tools/new"),
        # A word counts where a file has that name.
        ("core.fsmonitor", "sh watch docs later", "watch"),
        ("branch.main.merge", "refs/heads/main", "refs/heads/main"),
        ("user.name", "src docs", ""),
        ("credential.https://example.org.helper", "store", ""),
        ("remote.origin.url", "https://example.org/src/a.py", ""),
        ("branch.main.remote", ".", ""),
    ],
)
def test_a_path_in_any_setting_of_git_runs_later(
    project: Path, key: str, value: str, expected: str
) -> None:
    put(project, dict.fromkeys(["watch", "docs/x", "src/a.py", "cache/x"], ""))
    put(project, {"settings/git": "[core]\n\thooksPath = own\n"})
    value = shlex.quote(value.format(root=project))
    bash(project, f"git config {key} {value}")
    assert named(project) == set(expected.split())
    bash(project, f"git config --unset {key}")


def test_a_linked_worktree_has_its_repositorys_settings_and_hooks(project: Path) -> None:
    commit = "git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m 1"
    bash(project, f"git config core.fsmonitor 'sh watch'; {commit}; git worktree add -q ../linked")
    linked = project.parent / "linked"
    put(project, {".git/hooks/pre-commit": "sh tools/check.sh\n"})
    put(linked, {"watch": "", "tools/check.sh": ""})
    assert find_named(linked) == {f"{linked}/watch", f"{linked}/tools/check.sh"}
    bash(linked, "git config core.hooksPath own")
    assert f"{linked}/own" in find_named(linked)


def test_hooks_and_tasks_name_files_that_run_later(project: Path) -> None:
    scripts = {"lint": "node l.js", "test": "node t.js", "prepare": "node p.js"}
    files = {
        ".git/hooks/pre-commit": "# see notes.md\n. tools/common.sh\nmake -s check\n",
        ".git/hooks/pre-merge-commit": "exec tools/later.sh\n",
        ".git/hooks/pre-push.sample": "sh sample.sh\n",
        "tools/common.sh": '. "$(dirname "$0")/deep.sh"\n',
        "tools/deep.sh": "python3 scripts/lint.py src\n",
        "scripts/lint.py": "open('data.txt')\n",
        ".husky/pre-push": "npm run lint\n",
        "package.json": json.dumps({"scripts": scripts}),
        "Makefile": "all:\n\tsh all.sh\ncheck: deps\n\tsh check.sh\ndeps:\n\t@sh deps.sh\n",
        ".vscode/tasks.json": '{"command": "${workspaceFolder}/task.sh"}',
    }
    scripts_run = "check.sh deps.sh l.js p.js t.js all.sh task.sh".split()
    plain = "sample.sh notes.md data.txt src/a.py".split()
    put(project, files | dict.fromkeys([*scripts_run, *plain], ""))
    followed = "tools/common.sh tools/deep.sh scripts/lint.py Makefile package.json".split()
    found = named(project)
    assert {name for name in found if (project / name).exists()} == {*scripts_run, *followed}
    assert "tools/later.sh" in found


def test_each_file_in_the_table_names_programs(project: Path) -> None:
    expected = set()
    for number, name in enumerate(places.names("names_programs")):
        path = name if Path(name).suffix or name == ".envrc" else f"{name}/x"
        put(project, {path: f"sh tools/{number}.sh\n"})
        expected.add(f"tools/{number}.sh")
    assert expected <= named(project)


CIRCLE = {
    "package.json": '["no object"]',
    ".husky/a": "npm x; make a; sh a.sh\n",
    "a.sh": "sh a.sh; make b\n",
    "Makefile": "a: b\n\tmake b\nb: a\n\tmake a; sh a.sh\n",
    ".git/config": "[broken",
}


def test_only_what_is_run_counts_in_damaged_and_circular_texts(project: Path) -> None:
    put(project, CIRCLE)
    os.mkfifo(project / ".husky" / "pipe")
    run = {".husky/a", "Makefile", "a.sh", "package.json"}
    assert run == {name for name in named(project) if name in CIRCLE}


def test_files_that_only_people_run_are_not_named(project: Path) -> None:
    scripts = '{"scripts": {"test": "node t.js"}}'
    put(project, {"Makefile": "all:\n\tsh a.sh\n", "a.sh": "", "package.json": scripts, "t.js": ""})
    assert named(project) == set()
