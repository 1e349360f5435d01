"""Where the programs are found that kode starts by itself."""

import asyncio
import os
from pathlib import Path

import pytest

from kode.process import DEPTH, find_program, nested_environment, nesting_depth, start_program


@pytest.fixture(autouse=True)
def in_repository(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is a folder of a repository."""
    for name in (".git", "src"):
        (project / name).mkdir()
    monkeypatch.chdir(project / "src")


def program(folder: Path, name: str = "tool") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_one_in_the_project_is_passed_over(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = [program(project / ".venv" / "bin"), program(project / "src"), program(project)]
    link = project.parent / "link"
    link.symlink_to(project / ".venv" / "bin")
    folders = [*map(os.path.dirname, planted), str(link), ".", "", "../.venv/bin"]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    assert find_program("tool") is None

    true = program(project.parent / "bin")
    monkeypatch.setenv("PATH", os.pathsep.join([*folders, os.path.dirname(true)]))
    assert find_program("tool") == true


def test_programs_in_folders_of_work_are_passed_over(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin, other = project.parent / "bin", project.parent / "other" / "bin"
    bin.mkdir()
    (bin / "tool").symlink_to(program(project / "tools"))
    found = program(other)

    assert find_program("tool", path=str(bin)) is None  # it leads into the project
    assert find_program("tool", path=str(other)) == found
    assert find_program("tool", [other.parent], path=str(other)) is None
    assert find_program(program(project / "bin")) == str(project / "bin" / "tool")
    assert find_program(str(project / "bin" / "none")) is None
    monkeypatch.chdir("/")
    assert find_program("sh", path="/bin") == "/bin/sh"


def test_a_started_program_is_one_level_deeper() -> None:
    assert [nesting_depth({DEPTH: value}) for value in ("", "-1", "many", "9999")] == [0] * 4
    assert nesting_depth(nested_environment({})) == 1
    assert nesting_depth(nested_environment({DEPTH: "2"})) == 3


async def test_a_program_cancelled_as_it_starts_is_killed() -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    starting = asyncio.ensure_future(start_program("/bin/sleep", "600", **pipes))
    await asyncio.sleep(0)  # it has a process now, and no pipes yet

    starting.cancel()
    await asyncio.wait([starting], timeout=30)

    assert starting.cancelled()
