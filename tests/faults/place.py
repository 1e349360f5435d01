"""A home and a project of their own, the kodes that run there, and what they leave behind."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from kode import beneath
from kode.cli.main import main
from kode.memory.files import PREPARED
from tests.e2e import command
from tests.faults.injected import Injection

ENDED_S = 20.0
"""What a killed kode has started is gone after this."""
SILENCE_S = 60.0
"""A client that hears nothing for so long has lost its kode."""
LONGEST_S = 120.0

Event = dict[str, Any]
Shown = list[Event]
"""What a kode has shown, in its order; a line that is no JSON is an event `printed`."""
Tree = dict[str, str | None]


@dataclass(frozen=True)
class Run:
    """A kode that has ended."""

    code: int
    out: str
    err: str

    @property
    def is_killed(self) -> bool:
        return self.code < 0

    @property
    def shown(self) -> Shown:
        """The events that were shown whole."""
        return [
            json.loads(line) if line.startswith("{") else {"type": "printed", "text": line}
            for line in self.out.split("\n")[:-1]
            if line
        ]

    @property
    def sentences(self) -> list[str]:
        """The lines of the standard error."""
        return [line for line in self.err.splitlines() if line.strip()]

    @property
    def told(self) -> str:
        """All that a person was told of faults: errors of results, notices, standard error."""
        texts = [event.get("error") or "" for event in self.shown if event["type"] == "result"]
        texts += [event["text"] for event in self.shown if event["type"] == "notice"]
        return "\n".join([*texts, self.err])


@dataclass
class Wire:
    """A client of `kode acp` or `kode mcp serve` that sees each message; a line is one."""

    process: "subprocess.Popen[str]"
    shown: Shown = field(default_factory=list)
    """The parameters of the notifications that came."""
    requests: int = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request; permission is given. Raises: EOFError when kode is gone, or
        answers that it cannot."""
        self.requests += 1
        self.send({"id": self.requests, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break
            message = json.loads(line)
            if message.get("method") == "session/request_permission":
                outcome = {"outcome": "selected", "optionId": "once"}
                self.send({"id": message["id"], "result": {"outcome": outcome}})
            elif "method" in message:
                self.shown.append(message["params"])
            elif message.get("id") == self.requests:
                if "error" in message:
                    break
                result: dict[str, Any] = message["result"]
                return result
        raise EOFError

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise EOFError from None


@dataclass
class Place(command.Place):
    def __post_init__(self) -> None:
        self.make_folders()
        self.extra["TMPDIR"] = str(self.temporary)

    def make_folders(self) -> None:
        for folder in (self.home, self.project, self.temporary):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def _copy(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-copy")

    def configure(self, settings: Mapping[str, Any]) -> None:
        (self.home / "config.json").write_text(json.dumps(settings))

    def keep(self) -> None:
        """Remembers everything as it is now, for `restore`."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.folder, self._copy, symlinks=True)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._copy, self.folder, symlinks=True)

    # ── kodes ────────────────────────────────────────────────────────────────────────────────

    def script(self, script: Sequence[Any]) -> list[str]:
        """The flags by which the model says this."""
        text = json.dumps(script)
        path = self.folder / f"script-{zlib.crc32(text.encode())}.json"
        path.write_text(text)
        return ["--provider", "scripted", "--script", str(path)]

    def kode(self, *argv: str, injection: Injection | None = None) -> Run:
        """Runs a command to its end, in a process of its own."""
        with self.injected(injection):
            return Run(**vars(self.run(*argv)))

    def cold(self, line: Sequence[str]) -> Run:
        """Runs a command line that may start kode by its interpreter."""
        done = subprocess.run(
            line, env=self.environ, cwd=self.project, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LONGEST_S,
        )  # fmt: skip
        return Run(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def connected(self, *argv: str, injection: Injection | None = None) -> Iterator[Wire]:
        """A client of a kode that serves one; it may be killed meanwhile."""
        with self.injected(injection):
            process = self.start(*argv, stdin=subprocess.PIPE)
        assert process.stdin is not None
        try:
            with contextlib.suppress(EOFError):
                yield Wire(process)
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(SILENCE_S)
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()

    @contextlib.contextmanager
    def injected(self, injection: Injection | None) -> Iterator[None]:
        """What starts meanwhile takes the fault."""
        before = self.extra
        self.extra = {**before, **(injection.environ if injection else {})}
        try:
            yield
        finally:
            self.extra = before

    def call(self, *argv: str) -> Run:
        """Runs a command in this very process, without a start, so that hundreds can be tried;
        streams are as strict as those of a process."""
        with self.streams() as (out, err):
            code = main(argv)
            sys.stdout.flush()
            sys.stderr.flush()
            return Run(code, out.getvalue().decode(), err.getvalue().decode())

    @contextlib.contextmanager
    def streams(self) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
        """This process is in the place meanwhile, with these streams for its output."""
        out, err = io.BytesIO(), io.BytesIO()
        environ = {"KODE_HOME": str(self.home), "HOME": str(self.folder)}
        with (
            mock.patch.dict("os.environ", environ),
            mock.patch("sys.stdin", None),
            contextlib.chdir(self.project),
            contextlib.redirect_stdout(io.TextIOWrapper(out, "utf-8")),
            contextlib.redirect_stderr(io.TextIOWrapper(err, "utf-8", "backslashreplace")),
        ):
            yield out, err

    # ── what is there ────────────────────────────────────────────────────────────────────────

    @property
    def tree(self) -> Tree:
        """The project: path → content, None for a folder."""
        return {
            str(path.relative_to(self.project)): path.read_text() if path.is_file() else None
            for path in self.project.rglob("*")
        }

    @property
    def report(self) -> str:
        """The end of what kode has written down of a fault of its own."""
        return "".join(path.read_text()[-3000:] for path in (self.home / "logs").glob("fault-*"))

    def left_behind(self) -> list[str]:
        """Temporary files, half-finished work, mounts, and processes that do not end."""
        litter = [
            *self.folder.rglob(f"{beneath.TEMPORARY_PREFIX}*"),
            *self.home.rglob(PREPARED),
            *(self.home / "sandbox").glob("*"),
            *(self.home / "unfinished").glob("*"),
            # But for the four bytes by which `tempfile` finds out where it can write.
            *(path for path in self.temporary.glob("*") if path.stat().st_size > 4),
        ]
        faults = [f"left behind: {path.relative_to(self.folder)}" for path in litter]
        if str(self.folder) in Path("/proc/self/mountinfo").read_text():
            faults.append("left behind: a mount")
        return faults + self.living()

    def living(self) -> list[str]:
        """Processes of this home that have not ended after a while."""
        deadline = time.monotonic() + ENDED_S
        while (commands := self._commands()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return [f"lives on: {command!r}" for command in commands]

    def _commands(self) -> list[str]:
        mark = f"KODE_HOME={self.home}".encode()
        commands = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    commands.append((path.parent / "cmdline").read_text())
        return commands
