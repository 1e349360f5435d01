import os
import subprocess
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from kode.cli.prompt import attach
from kode.cli.prompt.attach import FileIndex, best_matches, list_files
from kode.cli.prompt.editor import PromptCompleter
from tests.needs import needs
from tests.tables import for_each


@pytest.fixture
def project(tmp_path):
    for name in ("app.py", "two words.py", "sources/deep/a.py", "build/out.o"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("build/\n")
    return tmp_path


@pytest.fixture
def completions(project):
    commands = {"/help": "what", "/permissions": "modes"}
    rows = {name: SimpleNamespace(summary=summary) for name, summary in commands.items()}
    state = SimpleNamespace(commands=rows, opened=None)
    completer = PromptCompleter(state, FileIndex(project))

    def texts(line):
        return [
            (completion.text, completion.start_position)
            for completion in completer.get_completions(Document(line), CompleteEvent())
        ]

    return texts


@for_each(
    ("line", "completed"),
    [
        ("/he", [("/help", -3)]),
        ("see /he", []),
        ("one\n/he", []),
        ("/help a", []),
        ("/", [("/help", -1), ("/permissions", -1)]),
        ("/p", [("/permissions", -2)]),
        ("/miss", [("/permissions", -5)]),
        ("/hlep", [("/help", -5)]),
        ("/zzz", []),
        ("look at @app", [("app.py", -3)]),
        ("mail me@ap", []),
        ("see @two", [('"two words.py"', -3)]),
        ('see @"two w', [('"two words.py"', -6)]),
        ("see @two\\ w", [('"two words.py"', -6)]),
        ("@sources/", [("sources/deep/", -8), ("sources/deep/a.py", -8)]),
    ],
)
def test_commands_and_files_are_completed(completions, line, completed):
    assert completions(line) == completed


@needs("git")
def test_git_lists_files_and_runs_nothing_of_the_repository(project):
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    evil = project / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {project}/ran\n")
    evil.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(evil)], cwd=project, check=True)

    names = list_files(project)

    assert {"app.py", "sources/deep/a.py"} <= set(names)
    assert not {"build/out.o", "ran"} & {*names, *os.listdir(project)}


def test_a_folder_without_git_is_walked_up_to_a_limit(project, monkeypatch):
    (project / "evil\x1b[2J").write_text("x")
    os.symlink(project, project / "loop")

    assert set(list_files(project)) == {".gitignore", "app.py", "two words.py", "sources/deep/a.py"}
    monkeypatch.setattr(attach, "MAX_WALKED", 2)
    assert len(list_files(project)) <= 2


@for_each(
    ("query", "first", "second"),
    [
        ("sess", "kode/session/log.py", "kode/possession.py"),
        ("app", "src/app.py", "application/other.py"),
        ("rlog", "src/run_log.py", "src/xrxlxoxg.py"),
        ("my file", "docs/my file.md", "docs/my-other-filer.md"),
        ("src", "src/", "src/app.py"),
        ("deep", "src/deep/", "deep/app.py"),
        ("", "src/", "src/app.py"),
        ("[x]^-", "a[x]^-.py", "ba[x]_^-.py"),
    ],
)
def test_names_that_begin_or_adjoin_rank_first(query, first, second):
    assert best_matches([second, first], query, 9)[:2] == [first, second]


@given(st.lists(st.text("abXY/_-. ", max_size=12)), st.text("abXY/", min_size=1, max_size=4))
def test_each_fitting_path_is_listed_once(paths, query):
    fitting = [path for path in paths if set(query.lower()) <= set(path.lower())]
    matches = best_matches(paths, query, len(paths))

    assert not Counter(matches) - Counter(fitting)
    assert Counter(matches) >= Counter(path for path in paths if query.lower() in path.lower())
