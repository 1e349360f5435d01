"""What a program is given in the sandbox, and what it opens there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kode.tool import Blocked

SandboxKind = Literal["none", "plain", "layered", "unknown"]
"""Where commands can be tried: nowhere; in a sandbox with a read-only project; in one where they
write to a copy of it; `unknown`: the trial of it ran out of time."""


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


@dataclass(frozen=True, kw_only=True)
class Wrapped:
    """How to run a command in the sandbox. Whoever starts it, or fails to, calls `settle`."""

    argv: tuple[str, ...]
    descriptors: tuple[int, ...]
    """Must be passed to the child under the same numbers."""
    settle: Callable[[], None]
    """Call when everything the command started has ended. Idempotent. Never raises."""
    opened: Callable[[], Opens | None] = lambda: None
    """What it has opened so far; None if that is not recorded."""
    hits: Callable[[], tuple[Blocked, ...]] = lambda: ()
    """What the sandbox has blocked so far, as far as it reports."""


WrapCommand = Callable[[tuple[str, ...]], Wrapped]
"""Turns a command's argument list into what runs it in the sandbox. Raises: OSError."""
