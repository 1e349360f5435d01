import os
import subprocess

import pytest

from kode.cli import files
from kode.cli.files import FileIndex, list_files, match_paths


@pytest.fixture
def project(tmp_path):
    for name in ("src/app.py", "src/app_test.py", "docs/a b.md", "build/out.o", ".hidden/x"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / ".gitignore").write_text("build/\n")
    return tmp_path


def test_git_names_what_is_not_ignored(project):
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)

    found = list_files(project)

    assert "src/app.py" in found
    assert "build/out.o" not in found


def test_without_git_and_ripgrep_the_folder_is_walked(project, monkeypatch):
    monkeypatch.setattr(files.shutil, "which", lambda name: None)

    found = list_files(project)

    assert {"src/app.py", "docs/a b.md"} <= set(found)
    assert not any(path.startswith(".hidden") for path in found)


def test_a_walk_stops_at_its_cap_and_never_follows_links(project, monkeypatch):
    monkeypatch.setattr(files.shutil, "which", lambda name: None)
    monkeypatch.setattr(files, "MAX_WALKED", 2)
    os.symlink(project, project / "loop")

    assert len(list_files(project)) == 2


def test_a_name_that_could_control_the_terminal_is_not_offered(project, monkeypatch):
    monkeypatch.setattr(files.shutil, "which", lambda name: None)
    (project / "evil\x1b[2J").write_text("x")

    assert not any("\x1b" in path for path in list_files(project))


PATHS = ["docs/render.md", "kode/cli/render.py", "kode/rendering/x.py", "kode/cli/repl_end.py"]


def test_the_files_own_name_ranks_before_its_folders():
    assert match_paths(PATHS, "render", 9) == [
        "docs/render.md",
        "kode/cli/render.py",
        "kode/rendering/x.py",
    ]


def test_letters_in_order_are_enough():
    assert match_paths(PATHS, "clirpy", 9) == ["kode/cli/render.py", "kode/cli/repl_end.py"]
    assert match_paths(PATHS, "zzz", 9) == []


def test_the_number_of_matches_is_bounded():
    assert len(match_paths([f"f{n}" for n in range(500)], "", 20)) == 20


def test_an_index_lists_in_a_thread_and_keeps_the_listing(project):
    index = FileIndex(project)

    assert "src/app.py" in index.find("app")
    (project / "src/new.py").write_text("x")
    assert index.find("new.py") == []


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
