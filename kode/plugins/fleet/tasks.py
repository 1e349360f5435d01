"""Reads the tasks of a new queue from JSON lines, or makes them from a template and repositories.
Everything is validated before anything starts.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kode.plugin import (
    MODE_CALLED,
    MODE_MEANS,
    ConfigError,
    GitError,
    PermissionMode,
    must_be,
    paths,
    programs,
)
from kode.plugins.fleet.records import NAME, Isolation, Task
from kode.plugins.worktrees import head_of

MAX_TASK_BYTES = 100_000
"""A longer text belongs in a file that the task names."""
_ID = re.compile(NAME)
_ADDRESS = re.compile(r"(?:https|ssh|git|file)://|[\w.-]+@[\w.-]+:")


class Row(BaseModel):
    """One line of a task file. `docs/fleet.md` explains the keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = Field(min_length=1)
    id: str | None = None
    cwd: str | None = None
    repo: str | None = None
    model: str | None = None
    mode: str | None = None
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    verify: str | None = None
    isolate: Isolation | None = None


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """The values of keys that a line leaves out."""

    cwd: Path
    """The base of relative paths, and the folder of tasks that name none."""
    model: str | None = None
    mode: PermissionMode | None = None
    budget_usd: float | None = None
    timeout_s: float | None = None
    verify: str = ""
    isolate: Isolation | None = None
    """None: a clone in a repository, else a copy."""


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
                f"{name}, line {number}: {_fault(error)}. "
                f"The keys are: {', '.join(Row.model_fields)}."
            ) from None
        except ValueError:
            raise ConfigError(
                f'{name}, line {number} is not JSON. A line looks like {{"task": "..."}}.'
            ) from None
    if not rows:
        raise ConfigError(f'{name} has no tasks. Write one per line: {{"task": "..."}}.')
    return rows


def _fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    if not fault["loc"]:
        return "it must be an object: {...}"
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "missing":
        return f"`{key}` is missing"
    if fault["type"] == "extra_forbidden":
        return f"there is no key `{key}`"
    return f"`{key}` must be {must_be([fault])}"


def rows_from_template(template: str, repositories: Iterable[str]) -> list[Row]:
    """One row per repository. In the template, `{repo}` stands for its path or address, `{name}`
    for its name."""
    rows = []
    for repository in repositories:
        name = repository.rstrip("/").rpartition("/")[2].removesuffix(".git")
        text = template.replace("{repo}", repository).replace("{name}", name)
        rows.append(Row(task=text, repo=repository))
    return rows


def tasks_from(rows: Sequence[Row], defaults: Defaults) -> list[Task]:
    """Makes a task of each row, with a unique id and the commit that it starts from. Raises:
    ConfigError for a row that cannot be run."""
    width = len(str(len(rows)))
    base_of = cache(_base_of)
    tasks: dict[str, Task] = {}
    for number, row in enumerate(rows, 1):
        task = _task_of(row, defaults, f"{number:0{width}}", base_of)
        name = task.id.casefold()  # ids are folder names, and some file systems ignore case
        if name in tasks:
            raise ConfigError(f"Two tasks have the id {task.id!r}. Give each its own, or none.")
        tasks[name] = task
    return list(tasks.values())


def _task_of(row: Row, defaults: Defaults, number: str, base_of: Callable[[str], str]) -> Task:
    label = f"Task {row.id or number}"
    if row.id is not None and not _ID.fullmatch(row.id):
        raise ConfigError(f"{label}: an id has letters, digits, `.`, `_` and `-`, at most 64.")
    if row.cwd is not None and row.repo is not None:
        raise ConfigError(f"{label}: `cwd` and `repo` mean the same. Drop one of the two.")
    if len(row.task.encode()) > MAX_TASK_BYTES:
        raise ConfigError(
            f"{label} is longer than {MAX_TASK_BYTES:,} bytes. Put the text in a file."
        )
    folder = row.repo or row.cwd or ""
    if folder and _ADDRESS.match(folder):
        source, isolate, base = folder, row.isolate or "clone", ""
        if isolate != "clone":
            raise ConfigError(f"{label}: {folder} can only be cloned, so `isolate` is `clone`.")
    else:
        source = paths.real_path(defaults.cwd / paths.expand(folder))
        if not Path(source).is_dir():
            raise ConfigError(f"{label}: {source} is not a folder. Paths are relative to --cwd.")
        base = base_of(source)
        isolate = row.isolate or defaults.isolate or ("clone" if base else "copy")
        if isolate in ("worktree", "clone") and not base:
            if programs.find_program("git") is None:
                raise ConfigError(f"{label}: git is not installed. Install it, or --isolate none.")
            raise ConfigError(
                f"{label}: {source} is not a repository with a commit. Use --isolate copy, or none."
            )
    return Task(
        id=row.id or number,
        task=row.task,
        source=source,
        isolate=isolate,
        base=base,
        model=row.model or defaults.model,
        mode=_mode(label, row.mode) or defaults.mode,
        budget_usd=row.budget_usd or defaults.budget_usd,
        timeout_s=row.timeout_s or defaults.timeout_s,
        verify=defaults.verify if row.verify is None else row.verify,
    )


def _mode(label: str, name: str | None) -> PermissionMode | None:
    if name is None:
        return None
    if name not in MODE_CALLED:
        raise ConfigError(
            f"{label}: {name!r} is not a mode. The modes are: {', '.join(MODE_MEANS)}."
        )
    return MODE_CALLED[name]


def _base_of(source: str) -> str:
    """The commit that is checked out in a folder; "" without a repository or a commit."""
    try:
        return head_of(Path(source))
    except GitError:
        return ""
