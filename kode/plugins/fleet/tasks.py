"""Reads the tasks of a new queue from JSON lines, and validates all before anything starts."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kode.plugin import ConfigError, GitError, PermissionMode, expand_path, real_path
from kode.plugins.fleet.queue import FleetTask, Isolation
from kode.plugins.worktrees import head_commit

_OF_FLAGS = ("mode", "verify", "isolate")
"""The keys that a flag sets for all tasks."""


class Row(BaseModel):
    """One line of a task file. `docs/fleet.md` explains the keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = Field(min_length=1)
    id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    cwd: str | None = None
    model: str | None = None
    mode: PermissionMode | None = None
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    verify: str | None = None
    isolate: Isolation | None = None


def parse_rows(text: str, name: str) -> list[Row]:
    """Parses a task file; `name` is used in errors. Raises: ConfigError, which names the line."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(Row.model_validate(json.loads(line)))
        except ValidationError as error:
            raise ConfigError(
                f"{name}, line {number}: {_describe_fault(error)}. "
                f"The keys are: {', '.join(Row.model_fields)}."
            ) from None
        except ValueError:
            raise ConfigError(
                f'{name}, line {number} is not JSON. A line looks like {{"task": "..."}}.'
            ) from None
    if not rows:
        raise ConfigError(f'{name} has no tasks. Write one per line: {{"task": "..."}}.')
    return rows


def _describe_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    if not fault["loc"]:
        return "it must be an object: {...}"
    return f"`{'.'.join(map(str, fault['loc']))}`: {fault['msg']}"


def make_tasks(rows: Sequence[Row], cwd: Path, flags: Mapping[str, Any]) -> tuple[FleetTask, ...]:
    """Makes a task of each row, with a unique id and the commit that it starts from. Relative paths
    are resolved against `cwd`, where a row without one works; `flags` has the values for keys that
    a row leaves out. Raises: ConfigError for a row that cannot be run."""
    usual = {name: flags[name] for name in _OF_FLAGS if flags.get(name) is not None}
    width = len(str(len(rows)))
    base_of = cache(_find_base)
    tasks: dict[str, FleetTask] = {}
    for number, row in enumerate(rows, 1):
        completed = row.model_copy(update={**usual, **row.model_dump(exclude_none=True)})
        task = _make_task(completed, cwd, f"{number:0{width}}", base_of)
        name = task.id.casefold()  # ids are folder names, and some file systems ignore case
        if name in tasks:
            raise ConfigError(f"Two tasks have the id {task.id!r}. Give each its own, or none.")
        tasks[name] = task
    return tuple(tasks.values())


def _make_task(row: Row, cwd: Path, number: str, base_of: Callable[[str], str]) -> FleetTask:
    label, source = f"Task {row.id or number}", real_path(cwd / expand_path(row.cwd or ""))
    if not Path(source).is_dir():
        raise ConfigError(f"{label}: {source} is not a folder. Paths are relative to --cwd.")
    base = base_of(source)
    isolate = row.isolate or ("clone" if base else "copy")
    if isolate in ("worktree", "clone") and not base:
        if shutil.which("git") is None:
            raise ConfigError(f"{label}: git is not installed. Install it, or --isolate none.")
        raise ConfigError(
            f"{label}: {source} is not a repository with a commit. Use --isolate copy, or none."
        )
    fields = row.model_dump(include={"task", "model", "mode", "budget_usd", "timeout_s"})
    place: dict[str, Any] = {"source": source, "isolate": isolate, "base": base}
    return FleetTask(id=row.id or number, verify=row.verify or "", **fields, **place)


def _find_base(source: str) -> str:
    """The commit that is checked out in a folder; "" without a repository or a commit."""
    try:
        return head_commit(Path(source))
    except GitError:
        return ""
