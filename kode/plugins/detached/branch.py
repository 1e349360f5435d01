"""`--worktree` of `kode run` and the chat: a worktree with a branch of its own. It is removed at
the end if nothing in it was changed; otherwise `kode ps --done` lists it."""

import argparse
import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from kode.plugin import (
    ConfigError,
    GitError,
    PluginSession,
    kode_home,
    print_either,
    session_file,
    summarize_session,
    working_directory,
)
from kode.plugins import worktrees
from kode.plugins.detached import REPORTERS, places
from kode.plugins.worktrees import Worktree

NAME = re.compile(r"(?=.*[g-zG-Z_])[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
"""A worktree's name, given by a person: valid for a branch, and never part of an id."""


def make_session_worktree(cwd: Path, name: str, id: str) -> tuple[Worktree, Path, str]:
    """Makes a worktree for a session that would work in `cwd`; its name is `name` or else the id.
    Returns it, the folder in it to work in, and a sentence if uncommitted changes are missing
    there. Raises: UserError."""
    if name and not NAME.fullmatch(name):
        raise ConfigError(
            f"--worktree {name}: a name has letters, digits, - and _, and does not look like an id."
        )
    tree, where = worktrees.make_worktree(kode_home(), cwd, name or id)
    is_behind = worktrees.has_changes(Path(tree.project))
    note = f"Uncommitted changes of {tree.project} are not in its worktree." if is_behind else ""
    return tree, where, note


@contextlib.contextmanager
def work_in_worktree(arguments: argparse.Namespace, session_id: str | None) -> Iterator[None]:
    """Runs a task or a chat in a new worktree if `--worktree` is given. Raises: UserError."""
    if arguments.worktree is None:
        yield
        return
    if session_id is not None:
        raise ConfigError("--worktree begins another session: leave it out, or do not resume one.")
    id, opened = places.new_id(), list[PluginSession]()
    tree, where, note = make_session_worktree(working_directory(arguments), arguments.worktree, id)
    print_either(faults=[note])
    arguments.cwd, arguments.name = str(where), arguments.name or arguments.worktree or None
    REPORTERS.append(opened.append)
    try:
        yield
    finally:
        REPORTERS.clear()
        print_either(faults=[_end_worktree(tree, id, str(where), opened)])


def _end_worktree(tree: Worktree, id: str, cwd: str, opened: list[PluginSession]) -> str:
    """Removes the worktree if it is unchanged, or else makes `kode ps` list it; says which."""
    try:
        files = worktrees.changed_files(tree)
        if not files and worktrees.head_commit(Path(tree.root)) == tree.base:
            worktrees.remove_branch(tree, tree.base)
            return f"Nothing was changed on the branch {tree.branch}: its worktree was removed."
    except (GitError, OSError) as error:
        return f"The worktree {tree.root} was left as it is: {error}."
    session = (opened[-1].session.id if opened else None) or ""
    summary = summarize_session(session_file(kode_home(), session)) if session else None
    title = summary.task if summary else tree.branch
    spec = places.Spec(
        id=id, words=(), title=title, task="", cwd=cwd, here=cwd, at=time.time(), tree=tree
    )
    folder, lock = places.create_folder(kode_home(), spec)
    paths = tuple(f"{tree.root}/{name}" for name in files)
    state = places.SessionState(doing="ended", since=spec.at, session=session, files=paths)
    places.write_state(folder, state)
    os.close(lock)
    name = tree.branch.removeprefix("kode/")
    settle = f"`kode ps --done --merge {name}` merges it, `--drop {name}` drops it."
    what = worktrees.join_names(files) or "no file differs"
    return f"The work is on the branch {tree.branch}, in {tree.root} ({what}): {settle}"
