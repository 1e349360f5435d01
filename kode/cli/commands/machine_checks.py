"""What `kode doctor` looks at on the machine: Python, folders, programs, the terminal."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kode import __version__, paths
from kode.cli.commands.diagnosis import Case, Finding, can_write
from kode.programs import find_program

MIN_FREE_BYTES = 100 * 1024 * 1024
PROGRAM_TIMEOUT_S = 10.0


def python(case: Case) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(what="Python", state="ok", detail=f"{version}, kode {__version__}")


def home(case: Case) -> Finding:
    home = paths.home()
    folder = _existing(home)
    if folder.is_dir() and can_write(folder):
        return Finding(what="home", state="ok", detail=f"{home} can be written")
    return Finding(
        what="home",
        state="missing",
        detail=f"{home} cannot be written",
        next_step="make it writable, or set KODE_HOME to another folder",
    )


def _existing(folder: Path) -> Path:
    """The nearest folder above that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def disk(case: Case) -> Finding:
    free = shutil.disk_usage(_existing(paths.home())).free
    detail = f"{free / 2**30:.1f} GB free"
    if free >= MIN_FREE_BYTES:
        return Finding(what="disk", state="ok", detail=detail)
    return Finding(
        what="disk",
        state="missing",
        detail=f"{detail} where {paths.home()} is",
        next_step="free some space; `kode session cleanup DAYS` deletes old sessions",
    )


def _version_of(program: str) -> str | None:
    """The first line of what it says its version is; None where it cannot be run."""
    path = find_program(program)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.partition("\n")[0].strip() or program


def git(case: Case) -> Finding:
    return _optional_program(
        "git",
        "git",
        without="kode works without, but /undo keeps less before commands that discard work",
        install="git",
    )


def ripgrep(case: Case) -> Finding:
    return _optional_program(
        "ripgrep",
        "rg",
        found="searches are fast",
        without="kode searches by itself, more slowly",
        install="ripgrep (rg)",
    )


def _optional_program(
    what: str, program: str, *, without: str, install: str, found: str = ""
) -> Finding:
    version = _version_of(program)
    if version is not None:
        return Finding(what=what, state="ok", detail=f"{version}: {found}" if found else version)
    there = find_program(program)
    state = f"{there} cannot be run" if there else "not found"
    return Finding(
        what=what, state="optional", detail=f"{state}; {without}", next_step=f"install {install}"
    )


def terminal(case: Case) -> Finding:
    term = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return Finding(what="terminal", state="ok", detail="output goes to a pipe or file")
    if term in ("", "dumb"):
        return Finding(
            what="terminal",
            state="optional",
            detail=f"TERM is {term or 'not set'}: plain lines, no colours, no editing keys",
            next_step="set TERM to what your terminal is, for example xterm-256color",
        )
    size = shutil.get_terminal_size()
    colours = "off (NO_COLOR)" if os.environ.get("NO_COLOR") else "on"
    detail = f"{term}, {size.columns} columns, colours {colours}"
    if "utf" not in (sys.stdout.encoding or "").lower():
        return Finding(
            what="terminal",
            state="optional",
            detail=f"{detail}, {sys.stdout.encoding}: signs that it lacks show as ?",
            next_step="use a UTF-8 locale, for example LC_ALL=C.UTF-8",
        )
    return Finding(what="terminal", state="ok", detail=detail)
