import os
import subprocess
import threading
import time

import pytest

from kode.cli.prompt import files
from kode.cli.prompt.files import FileIndex, list_files
from tests.needs import needs


@pytest.fixture
def project(tmp_path):
    for name in ("src/app.py", "src/app_test.py", "docs/a b.md", "build/out.o", ".hidden/x"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / ".gitignore").write_text("build/\n")
    return tmp_path


def test_compiled_python_files_are_not_offered(tmp_path):
    (tmp_path / "src" / "__pycache__").mkdir(parents=True)
    for name in ("src/parse.py", "src/__pycache__/parse.cpython-311.pyc", "old.pyc"):
        (tmp_path / name).write_bytes(b"x")
    assert list_files(tmp_path) == ["src/parse.py"]


@needs("git")
def test_git_names_what_is_not_ignored(project):
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)

    found = list_files(project)

    assert "src/app.py" in found
    assert "build/out.o" not in found


def test_the_folder_is_walked_where_git_and_ripgrep_are_missing(project, monkeypatch):
    monkeypatch.setattr(files, "find_program", lambda name, work: None)

    found = list_files(project)

    assert {"src/app.py", "docs/a b.md", ".hidden/x"} <= set(found)
    assert "build/out.o" not in found


@needs("rg")
def test_ripgrep_lists_where_there_is_no_repository(project):
    found = list_files(project)

    assert {"src/app.py", "docs/a b.md", ".hidden/x"} <= set(found)
    assert "build/out.o" not in found


def test_a_slow_listing_is_used_as_far_as_it_came(project, monkeypatch):
    class AfterOutput(threading.Timer):
        """Its time is over once the command has written."""

        def run(self):
            while not (project / "written").exists():
                time.sleep(0.01)
            self.function()

    slow = ("sh", "-c", "printf 'one\\0two\\0'; touch written; exec sleep 60")
    monkeypatch.setattr(files, "GIT_FILES", slow)
    monkeypatch.setattr(threading, "Timer", AfterOutput)

    assert list_files(project) == ["one", "two"]


def test_a_listing_ends_at_its_cap(project, monkeypatch):
    monkeypatch.setattr(files, "GIT_FILES", ("sh", "-c", "yes | tr '\\n' '\\0'"))
    monkeypatch.setattr(files, "MAX_FILES", 7)

    assert len(list_files(project)) == 7


def test_a_walk_stops_at_its_cap_and_never_follows_links(project, monkeypatch):
    monkeypatch.setattr(files, "find_program", lambda name, work: None)
    monkeypatch.setattr(files, "MAX_WALKED", 2)
    os.symlink(project, project / "loop")

    assert len(list_files(project)) == 2


def test_a_name_that_could_control_the_terminal_is_not_offered(project, monkeypatch):
    monkeypatch.setattr(files, "find_program", lambda name, work: None)
    (project / "evil\x1b[2J").write_text("x")

    assert not any("\x1b" in path for path in list_files(project))


def test_an_index_lists_in_a_thread_and_keeps_the_listing(project):
    index = FileIndex(project)

    assert "src/app.py" in index.find("app")
    (project / "src/new.py").write_text("x")
    assert index.find("new.py") == []


@needs("git")
def test_a_repository_s_settings_run_nothing(project, tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    ran = tmp_path / "ran"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\n")
    evil.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.sshCommand"):
        subprocess.run(["git", "config", key, str(evil)], cwd=project, check=True)
    subprocess.run(["git", "ls-files", "-co"], cwd=project, check=True, capture_output=True)
    assert ran.exists()
    ran.unlink()

    assert "src/app.py" in list_files(project)

    assert not ran.exists()


def test_a_search_waits_for_the_first_listing_unless_closed(project, monkeypatch):
    listed = threading.Event()
    monkeypatch.setattr(files, "list_files", lambda root: listed.wait(30) and ["app.py"])
    index = FileIndex(project)
    closed = FileIndex(project)
    found = []
    waiting = threading.Thread(target=lambda: found.append(index.find("app")))
    waiting.start()

    closed.close()
    assert closed.find("app") == []
    assert found == []

    listed.set()
    waiting.join(10)
    assert found == [["app.py"]]
