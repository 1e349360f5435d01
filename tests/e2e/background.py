"""Drives sessions in the background through the installed command, and finds their processes."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal

LONGEST_S = 90.0
"""For what takes a second on an idle machine."""


def until(holds: Callable[[], Any], timeout_s: float = LONGEST_S) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


@dataclass
class Background:
    """The sessions in the background of one place."""

    place: Place

    def start(self, task: str, *flags: str, **options: Any) -> str:
        done = self.place.run(
            "start", task, "--no-memory", "--output-format", "json", *flags, **options
        )
        assert done.code == 0, done.err
        return str(done.json["id"])

    def listed(self, *flags: str) -> dict[str, dict[str, Any]]:
        done = self.place.run("ps", "--json", *flags)
        assert done.code == 0, done.err
        return {one["id"]: one for one in done.json}

    def said(self, id: str) -> dict[str, Any]:
        """What the session's prompt said last."""
        try:
            found: dict[str, Any] = json.loads((self.folder(id) / "state.json").read_text())
        except FileNotFoundError:
            return {"doing": ""}
        return found

    def folder(self, id: str) -> Path:
        return self.place.home / "detached" / id

    def does(self, id: str, *doing: str) -> dict[str, Any]:
        """Waits until the session does one of these."""
        found: dict[str, Any] = until(lambda: (s := self.said(id))["doing"] in doing and s)
        return found

    def over(self, id: str) -> dict[str, Any]:
        """Waits until no process of it is left; returns how it is listed."""
        until(lambda: not processes(self.folder(id)))
        return self.listed("--done")[id]

    def attach(self, id: str, **size: int) -> Terminal:
        return Terminal(
            str(KODE), ["attach", id], cwd=self.place.project, env=self.place.environ, **size
        )


@contextlib.contextmanager
def background(place: Place) -> Iterator[Background]:
    """Nothing of it is left afterwards."""
    place.forked = False
    try:
        yield Background(place)
    finally:
        for pid in processes(place.home / "detached"):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def processes(folder: Path) -> dict[int, str]:
    """Pid → command line of every process that names a folder: holders and prompts."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if str(folder) in line and _state(entry) != "Z":
                    found[int(entry.name)] = line
    return found


def working_in(folder: Path) -> list[str]:
    """The command lines of living processes whose working directory is in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(folder) and _state(entry) != "Z":
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def _state(entry: Path) -> str:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0]
