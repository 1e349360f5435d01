"""Runs commands in a sandbox, as the shell tool does."""

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kode.contracts import Wrapped
from kode.tools.sandbox import Sandbox, open_sandbox

Kind = Literal["bubblewrap", "landlock"]

KINDS: tuple[Kind, ...] = ("bubblewrap", "landlock")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str
    put_back: str
    """What the sandbox said of it when it had ended."""


@dataclass(frozen=True)
class Run:
    """Runs a bash command in one kind of sandbox."""

    sandbox: Sandbox
    kind: Kind

    def __call__(self, text: str) -> Done:
        command = self.sandbox.command(self.kind, ("/bin/bash", "-c", text))
        return ran(command, self.sandbox.ground.cwd)


def ran(wrapped: Wrapped, cwd: Path) -> Done:
    try:
        done = subprocess.run(
            wrapped.argv,
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
            pass_fds=wrapped.descriptors,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    finally:
        said = wrapped.settle()
    return Done(done.returncode, done.stdout, done.stderr, said)


def opened(
    home: Path, work: Path, *, network: bool = False, kept: tuple[Path, ...] = (), **more: Any
) -> Sandbox:
    return open_sandbox(
        cwd=work,
        roots=(work,),
        repository=work,
        kode_home=home / ".kode",
        outputs=home / ".kode" / "outputs",
        network=network,
        kept=kept,
        **more,
    )


def python(text: str) -> str:
    """A command line that runs Python code."""
    return f"{shlex.quote(os.path.realpath(sys.executable))} -I -c {shlex.quote(text)}"
