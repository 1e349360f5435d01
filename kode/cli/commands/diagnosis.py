"""Shared by the checks of `kode doctor`: findings and common inputs. Also contains the checks of
the machine: Python, folders, programs, the terminal.
"""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode import __version__, paths
from kode.config.files import guard_home
from kode.errors import ConfigError, KodeError
from kode.programs import find_program
from kode.providers.server import ServerAnswer, reach_server

if TYPE_CHECKING:
    from kode.config.choice import ProviderChoice
    from kode.config.load import Loaded

MIN_FREE_BYTES = 100 * 1024 * 1024  # room for the undo copies of a few sessions
PROGRAM_TIMEOUT_S = 10.0  # `git --version` and the like answer at once
State = Literal["ok", "missing", "optional"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    what: str = ""
    state: State
    """`missing` is required and makes the exit code 1; `optional` is not."""
    detail: str
    next_step: str = ""


def ok(detail: str) -> Finding:
    return Finding(state="ok", detail=detail)


def missing(detail: str, next_step: str = "") -> Finding:
    return Finding(state="missing", detail=detail, next_step=next_step)


def optional(detail: str, next_step: str = "") -> Finding:
    return Finding(state="optional", detail=detail, next_step=next_step)


class UntriedError(Exception):
    """A check depends on what another check reports as missing."""


@dataclass(frozen=True)
class Case:
    """Inputs shared by several checks, each computed once."""

    cwd: Path

    @functools.cached_property
    def loaded(self) -> "Loaded":
        """Raises: UntriedError."""
        from kode.config.load import load_config

        with contextlib.suppress(KodeError):
            return load_config(paths.home(), self.cwd, environ=os.environ, flags={})
        raise UntriedError("not tried: the configuration has an error")

    @functools.cached_property
    def choice(self) -> "ProviderChoice":
        """The provider to ask. Raises: UntriedError."""
        from kode.config.choice import resolve_provider

        with contextlib.suppress(KodeError):
            return resolve_provider(self.loaded.config, os.environ)
        raise UntriedError("not tried: no model is set up")

    @functools.cached_property
    def reached(self) -> "ServerAnswer | None":
        """What its server answers; None without a server to ask."""
        return None if self.choice.name == "scripted" else reach_server(self.choice)


def python(case: Case) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return ok(f"{version}, kode {__version__}")


def home(case: Case) -> Finding:
    home = paths.home()
    try:
        note = guard_home(home)
    except ConfigError as error:
        return missing(str(error), "make the folder your own")
    try:  # permissions alone do not cover read-only disks and root
        with tempfile.TemporaryFile(dir=_existing(home)):
            return ok(note or f"{home} can be written")
    except OSError:
        step = "make it writable, or set KODE_HOME to another folder"
        return missing(f"{home} cannot be written", step)


def _existing(folder: Path) -> Path:
    """The nearest existing parent folder."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def disk(case: Case) -> Finding:
    free = shutil.disk_usage(_existing(paths.home())).free
    detail = f"{free / 2**30:.1f} GB free"
    if free >= MIN_FREE_BYTES:
        return ok(detail)
    step = "free some space; `kode session cleanup DAYS` deletes old sessions"
    return missing(f"{detail} where {paths.home()} is", step)


def git(case: Case) -> Finding:
    without = "kode works without it, but /undo saves less before commands that discard work"
    return _program("git", "git", without)


def ripgrep(case: Case) -> Finding:
    return _program("rg", "ripgrep (rg)", "kode searches by itself, more slowly")


def _program(name: str, title: str, without: str) -> Finding:
    """What a program says of its version, or what is done without it."""
    path = find_program(name)
    if path is None:
        return optional(f"not found; {without}", f"install {title}")
    try:
        output = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return optional(f"{path} cannot be run; {without}", f"install {title}")
    return ok(output.partition("\n")[0].strip() or path)


def terminal(case: Case) -> Finding:
    term = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return ok("output goes to a pipe or file")
    if term in ("", "dumb"):
        return optional(
            f"TERM is {term or 'not set'}: plain lines, no colours, no editing keys",
            "set TERM to your terminal's type, for example xterm-256color",
        )
    size = shutil.get_terminal_size()
    colours = "off (NO_COLOR)" if os.environ.get("NO_COLOR") else "on"
    detail = f"{term}, {size.columns} columns, colours {colours}"
    if "utf" not in (sys.stdout.encoding or "").lower():
        return optional(
            f"{detail}, {sys.stdout.encoding}: characters it lacks show as ?",
            "use a UTF-8 locale, for example LC_ALL=C.UTF-8",
        )
    return ok(detail)
