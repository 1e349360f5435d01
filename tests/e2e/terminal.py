"""A terminal that tests can type into and read: a real process behind a pty, its screen in pyte."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pexpect
import pyte

NAMES = {"enter": "\r", "up": "\x1b[A", "esc": "\x1b", "ctrl-c": "\x03", "ctrl-d": "\x04"}


class Terminal:
    """Starts a command in a terminal of its own. Use as a context manager."""

    def __init__(
        self,
        command: str,
        arguments: list[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        width: int = 80,
        height: int = 30,
    ) -> None:
        base = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "PYTHONPATH", "HOME")}
        self.screen = pyte.HistoryScreen(width, height, history=2000, ratio=1)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.process: pexpect.spawn[bytes] = pexpect.spawn(
            command,
            arguments,
            cwd=str(cwd),
            env={**base, "TERM": "xterm-256color", "LANG": "C.UTF-8", **env},
            dimensions=(height, width),
            echo=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.process.close(force=True)
        except pexpect.ExceptionPexpect:  # killed, and not yet ended on a busy machine
            self.process.wait()

    def type(self, *keys: str) -> None:
        for key in keys:
            self.process.send(NAMES.get(key, key))

    def read(self, pause_s: float = 0.02) -> bool:
        """Takes in what the process has written so far."""
        try:
            data = self.process.read_nonblocking(65536, timeout=pause_s)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self.stream.feed(data)
        return True

    @property
    def lines(self) -> list[str]:
        """Everything on the screen and scrolled off it, right-stripped."""
        above = [
            "".join(row[x].data for x in range(self.screen.columns))
            for row in self.screen.history.top
        ]
        return [line.rstrip() for line in [*above, *self.screen.display]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    def until(self, *texts: str, timeout_s: float = 20.0) -> str:
        """Reads until all texts are on the screen or above it, and returns all that is there."""
        deadline = time.monotonic() + timeout_s
        while not all(text in self.text for text in texts):
            alive = self.read()
            if not alive or time.monotonic() > deadline:
                raise AssertionError(f"{texts} did not all appear:\n{self.text}")
        return self.text

    def until_count(self, text: str, count: int, timeout_s: float = 20.0) -> None:
        """Reads until a text is there so many times."""
        deadline = time.monotonic() + timeout_s
        while self.text.count(text) < count:
            self.read()
            assert time.monotonic() < deadline, f"not {count} times {text!r}:\n{self.text}"

    def until_gone(self, text, timeout_s=20.0):
        """Reads until a text is no longer there."""
        deadline = time.monotonic() + timeout_s
        while text in self.text:
            self.read()
            assert time.monotonic() < deadline, f"{text!r} is still there:\n{self.text}"
        return self.text

    def ended(self):
        """Reads to the end and returns the exit code."""
        while self.read():
            pass
        self.process.close()
        return self.process.exitstatus
