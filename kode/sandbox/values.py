"""Kinds of sandboxes, what a program is given in one, and what it opens there."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kode.sandbox.attempt import Attempt

SandboxKind = Literal["none", "plain", "layered", "unknown"]
"""Where commands can be tried: nowhere; in a sandbox with a read-only project; in one where they
write to a copy of it; `unknown`: the trial of it ran out of time."""


Kind = Literal["bubblewrap", "landlock", "seatbelt", "none"]

SEATBELT = "/usr/bin/sandbox-exec"

SYSTEM_PATH = (
    "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin:/run/current-system/sw/bin:/run/wrappers/bin"
)
"""Where programs are searched: a project's folder on PATH must not supply them."""


def find_program(name: str) -> str | None:
    """The path of a program of the system; None if there is none."""
    return shutil.which(name, path=SYSTEM_PATH)


@dataclass(frozen=True, kw_only=True)
class Support:
    """How good the sandbox is on this machine."""

    kind: Kind
    why: str
    """For `none` and `landlock`: the reason, with the next step."""
    gaps: tuple[str, ...] = ()
    """What it does not cover."""
    layered: bool = False
    """Whether commands can change a throw-away copy of the project."""


@dataclass(frozen=True, kw_only=True)
class Grants:
    """What a person lets one program do that commands in the sandbox may not."""

    network: bool = False
    write: tuple[str, ...] = ()
    """Folders that it may change for real: absolute, none around a home or a working folder."""
    outside: bool = False
    """Whether it runs without the sandbox."""


@dataclass(frozen=True, kw_only=True)
class Opens:
    """Absolute paths that a command opened or tried to open, in the order of their first time."""

    project: tuple[str, ...]
    """Files and folders of the project, programs among them."""
    scripts: tuple[str, ...]
    """Those of them that it executed, or gave to an interpreter as its program."""
    elsewhere: tuple[str, ...]


WrapCommand = Callable[[tuple[str, ...]], "Attempt"]
"""Turns a command's argument list into what runs it in the sandbox. Raises: OSError."""
