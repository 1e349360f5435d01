"""The power goes at every moment of a story: whatever the disk may hold then, nothing that was
shown as done is missing, and kode starts and goes on.

What a disk may hold is computed (`power_cut.py`) from the recorded system calls.
"""

import itertools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.effort import EVERYTHING, draws
from tests.faults import power_cut, strace
from tests.faults.driver import CommandStory, Stage, find_faults, set_stage
from tests.faults.lives import TIERED, LifeCommand
from tests.faults.place import Place, Run, Shown
from tests.faults.stories import STORIES
from tests.warm import KODE

DISKS = 500 if EVERYTHING else 8
"""Of each story."""
RECORDED = [
    story for story in STORIES if isinstance(story, CommandStory) and not story.is_sandboxed
]

State = tuple[power_cut.Tree, Shown]

pytestmark = pytest.mark.timeout(7200 if EVERYTHING else 600)


def record(stage: Stage) -> list[strace.Call]:
    """What a story does to files, from its beginning."""
    place, story = stage.place, stage.story
    place.restore()
    assert isinstance(story, CommandStory)
    line = [sys.executable, KODE, *story.argv(place)]
    calls, run = strace.record(line, environ=place.environ, cwd=place.project)
    assert run.code == 0, run.err
    return calls


def disks(stage: Stage, calls: Sequence[strace.Call]) -> Iterator[State]:
    """Every disk that may be left at some moment, with what had been shown by then. Left out are
    indexes for searching, which are made anew, locks, which hold nothing, and what is temporary."""

    def is_left_out(path: str) -> bool:
        temporary = f"{stage.place.temporary}/"
        is_copy = "/kode-home/sandbox/" in path  # of a command, in part the kernel's own
        return is_copy or "/.search" in path or path.endswith("/.lock") or temporary in path

    stage.place.restore()
    disk = power_cut.Disk(stage.place.folder, is_left_out)
    out = b""
    seen: set[int] = set()
    for call in calls:
        if call.name == "write" and call.fd == 1 and call.pid == calls[0].pid:
            out += call.data
        elif not disk.play(call):
            continue
        shown = [*stage.before, *Run(0, out.decode(errors="replace"), "").shown]
        for tree in disk.states():
            key = hash((frozenset(tree.items()), len(shown)))
            if key not in seen:
                seen.add(key)
                yield tree, shown


def build(place: Place, tree: power_cut.Tree) -> None:
    shutil.rmtree(place.folder)
    power_cut.build(tree, place.folder)
    place.make_folders()


@pytest.mark.parametrize("story", RECORDED, ids=lambda story: story.name)
def test_a_power_cut_loses_nothing_that_was_shown(story: CommandStory, tmp_path: Path) -> None:
    strace.needed()
    stage = set_stage(story, tmp_path)
    every = list(disks(stage, record(stage)))
    chosen = draws(story.name).sample(every, min(DISKS, len(every)))
    faults: Counter[str] = Counter()
    for tree, shown in chosen:
        build(stage.place, tree)
        faults.update(find_faults(stage, shown))
    print(f"\n{story.name}: {len(chosen)} of {len(every)} disks")
    assert faults == {}


def without_syncs(calls: Sequence[strace.Call], part: str, *, folders: bool) -> list[strace.Call]:
    """The same calls of a program that does not sync its folders, or its files, in one part of its
    home."""
    names = {call.paths[0] for call in calls if call.name.startswith(("mkdir", "rename", "unlink"))}
    parents = {os.path.dirname(name) for name in names}
    return [
        call
        for call in calls
        if call.name not in ("fsync", "fdatasync")
        or part not in call.paths[0]
        or (call.paths[0] in parents) is not folders
    ]


def test_the_model_would_find_a_sync_left_out(tmp_path: Path) -> None:
    strace.needed()
    story = LifeCommand(TIERED, 0)
    stage = set_stage(story, tmp_path)
    calls = record(stage)
    for part, folders in itertools.product(("/sessions", "/memory"), (True, False)):
        for tree, shown in disks(stage, without_syncs(calls, part, folders=folders)):
            build(stage.place, tree)
            if story.missing(stage.place, shown):
                break
        else:
            raise AssertionError(f"a lost sync in {part} was not found, folders: {folders}")
