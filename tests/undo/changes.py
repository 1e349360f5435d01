"""Undo data in a folder, and turns that change files."""

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kode.undo.journal import Step, TurnId
from kode.undo.store import MEGABYTE, Contents
from kode.undo.undo import Undo, open_undo


def undo_in(folder: Path, **limits: int) -> Undo:
    most = {"max_file_bytes": 5 * MEGABYTE, "max_bytes": 200 * MEGABYTE}
    return open_undo(folder, **most | limits)


def save(contents: Contents, data: bytes) -> str:
    """Saves these bytes; returns their state."""
    path = contents.folder.parent / "a file that is saved"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    (seen,) = contents.save([str(path)]).values()
    path.unlink()
    return str(seen.state)


def turn_id(number: int) -> TurnId:
    return TurnId(f"message {number}", number)


@contextmanager
def step(undo: Undo, turn: int | TurnId, *paths: Path | str) -> Iterator[Step]:
    """A step of a turn that changes these files."""
    of = turn_id(turn) if isinstance(turn, int) else turn
    running = undo.begin(of, [*map(str, paths)])
    assert not running.problem
    yield running
    undo.end(running)


def change(undo: Undo, turn: int | TurnId, path: Path, *texts: str | None) -> None:
    """A step for each text; None deletes the file."""
    for text in texts:
        with step(undo, turn, path):
            path.unlink() if text is None else path.write_text(text)


Tree = dict[str, tuple[object, ...]]


def tree(root: Path, *, but: tuple[str, ...] = (".git",)) -> Tree:
    """What is in a folder, but for these folders and files: links, modes and contents."""
    entries: Tree = {}
    for path in sorted(root.rglob("*")):
        name, mode = str(path.relative_to(root)), stat.S_IMODE(path.lstat().st_mode)
        if f"{name}/".startswith(tuple(f"{each}/" for each in but)):
            continue
        if path.is_symlink():
            entries[name] = ("link", os.readlink(path))
        else:
            data = "special" if path.exists() and not path.is_file() else path.read_bytes()
            entries[name] = ("folder" if path.is_dir() else data, mode)
    return entries


PROGRAMS = (
    "core.fsmonitor core.editor core.pager core.sshCommand core.askPass core.alternateRefsCommand "
    "credential.helper diff.external diff.evil.textconv filter.evil.clean filter.evil.process "
    "filter.evil.smudge gpg.program merge.evil.driver uploadpack.packObjectsHook hook.evil.command "
    "trace2.normalTarget alias.update-index"
).split()
"""Settings of git that name a program."""


def plant_programs(root: Path, proof: Path, settings: Path) -> None:
    """Has the hooks of a repository and these settings run a program that leaves `proof`."""
    evil = proof.with_suffix(".sh")
    hooks = ("post-index-change", "reference-transaction", "fsmonitor-watchman", "post-checkout")
    for path in (evil, *(root / ".git" / "hooks" / name for name in hooks)):
        path.write_text(f"#!/bin/sh\necho ran >> {proof}\ncat\n")
        path.chmod(0o755)
    given = [(key, str(evil)) for key in PROGRAMS]
    given += [("hook.evil.event", event) for event in hooks[:2]]  # to git 2.54 and newer
    given += [("filter.evil.required", "true"), ("log.showSignature", "true")]
    for key, value in given:
        subprocess.run(["git", "config", "-f", settings, "--add", key, value], check=True)
    proof.unlink(missing_ok=True)
