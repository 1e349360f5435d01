"""Runs the installed `kode` in a project and a home of its own, against a scripted server."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.terminal import Terminal
from tests.needs import lacking, skip_without
from tests.warm import KODE, Warm, can_start

LONGEST_S = 180
"""For a command that hangs; a busy machine takes ten times as long as an idle one."""


@dataclass
class Finished:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Place:
    """A project folder, a home, and the environment of a person with one key."""

    folder: Path
    url: str = "http://127.0.0.1:9/v1"
    extra: dict[str, str] = field(default_factory=dict)
    forked: bool = True
    """Whether to start it from the process that `tests/warm.py` keeps, where that can be."""

    def __post_init__(self) -> None:
        self.project.mkdir(exist_ok=True)

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def home(self) -> Path:
        return self.folder / "kode-home"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "KODE_HOME": str(self.home),
            "OPENAI_API_KEY": "sk-test-0123456789abcdef0123",
            "OPENAI_BASE_URL": self.url,
            # One that any server has in Chat Completions; the vendors' own formats have tests of
            # their own.
            "KODE_MODEL": "gpt-4.1",
            **self.extra,
        }

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        environ = self.environ
        warm = self.forked and can_start(environ, options)
        return (Warm if warm else subprocess.Popen)(
            arguments if warm else [KODE, *arguments],
            cwd=options.pop("cwd", self.project),
            env=environ,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, *arguments: str, stdin: str | None = None, **options: Any) -> Finished:
        if stdin is not None:
            options["stdin"] = subprocess.PIPE
        with self.start(*arguments, **options) as process:
            out, err = process.communicate(stdin, timeout=LONGEST_S)
            return Finished(process.returncode, out, err)

    def terminal(self, *arguments: str, **size: int) -> Terminal:
        """kode at a terminal."""
        return Terminal(KODE, list(arguments), cwd=self.project, env=self.environ, **size)

    @property
    def session_files(self) -> list[Path]:
        """The oldest first. Not by name: that counts seconds, and two may begin in one."""
        return sorted((self.home / "sessions").glob("*.jsonl"), key=created_at)


_sandboxes: list[str] = []
"""What `kode doctor` says of this machine's sandbox, once a test has asked."""


def needs_a_whole_sandbox(place: Place) -> None:
    """Skips the test where commands have no sandbox in which they can write."""
    skip_without("bwrap")
    if not _sandboxes:
        findings = json.loads(place.run("doctor", "--json").out)
        _sandboxes.extend(it["detail"] for it in findings if it["what"] == "sandbox")
    if not _sandboxes[0].startswith("bubblewrap"):
        lacking("a whole sandbox", _sandboxes[0])


def created_at(path: Path) -> str:
    """Later than any date for a session whose first line is still being written."""
    with path.open(encoding="utf-8") as file:
        line = file.readline()
    return str(json.loads(line)["created_at"]) if line.endswith("\n") else "~"
