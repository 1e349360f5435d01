"""A disk that fails every sync, a clock set back, two kodes on one session: one sentence, and
nothing that was there before is lost. What takes a mount or strace is in `test_disk_faults`.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kode.session import index, log
from tests.faults.in_process import FAULT, Finished, Here

pytestmark = pytest.mark.slow
ERRORS = {errno.EIO: "check the disk", errno.ENOSPC: "free some space", errno.EROFS: "KODE_HOME"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    for name in list(os.environ):
        if name.startswith(("KODE_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    here = Here(tmp_path / "place")
    here.project.mkdir(parents=True)
    here.home.mkdir(mode=0o700)
    (here.home / "config.json").write_text('{"permissions": {"mode": "full"}}')
    done = here.task("run", "look around")
    assert done.code == 0, done.told
    return here


def newest(here: Here) -> str:
    return index.newest(here.home, here.project)[0]


def entry_ids(here: Here) -> set[str]:
    ids = [id for _, id in index.files(here.home)]
    return {one.id for id in ids for one in log.read(log.session_path(here.home, id))[1]}


def repair_of_torn(here: Here) -> Finished:
    with log.session_path(here.home, here.session).open("ab") as file:
        file.write(b"torn")
    return here.kode("session", "check", "--repair")


def fleet(here: Here) -> Finished:
    (here.folder / "tasks.jsonl").write_text('{"task": "look", "isolate": "none"}\n')
    return here.kode("fleet", "run", str(here.folder / "tasks.jsonl"))


COMMANDS: dict[str, Callable[[Here], Finished]] = {
    "run": lambda here: here.task("run", "look"),
    "continue": lambda here: here.task("continue", "look"),
    "fork": lambda here: here.kode("session", "fork", here.session),
    "trim": lambda here: here.kode("session", "trim", here.session, "0"),
    "delete": lambda here: here.kode("session", "delete", here.session),
    "repair": repair_of_torn,
    "fleet": fleet,
}


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_disk_that_fails_is_told_in_one_sentence(
    here: Here, command: str, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = entry_ids(here)

    def fails(descriptor: int) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        done = COMMANDS[command](here)

    assert done.code in (1, 3), done
    assert FAULT.search(done.told) is None
    assert len(done.err.splitlines()) == 1, done.err
    assert ERRORS[error] in done.err
    if command != "delete":
        assert entry_ids(here) >= before
    here.kode("session", "check", "--repair")
    assert here.kode("session", "check").code == 0


def test_a_session_open_elsewhere_is_told_in_one_sentence(here: Here) -> None:
    session, _ = log.load(here.home, here.session)
    path = log.session_path(here.home, here.session)
    before = path.read_bytes()

    done = here.task("continue", "look")

    session.close()
    assert done.code in (1, 3)
    assert len(done.err.splitlines()) == 1
    assert f"session fork {here.session}" in done.err
    assert path.read_bytes() == before


def test_a_clock_set_back_an_hour_continues_the_newer_session(here: Here) -> None:
    older = here.session
    path = log.session_path(here.home, older)
    hour = path.stat().st_mtime + 3600
    os.utime(path, (hour, hour))
    here.task("run", "look again")
    newer = newest(here)
    assert newer != older

    done = here.task("continue", "and again")

    assert (done.code, done.err) == (0, "")
    texts = log.session_path(here.home, newer).read_text()
    assert "and again" in texts
    assert "and again" not in path.read_text()
