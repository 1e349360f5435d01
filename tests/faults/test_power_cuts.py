"""The power goes at every moment of a story: whatever the disk may hold then, nothing that was
shown as done is missing, and kode starts and goes on.

What a disk may hold is computed (`power_cut.py`) from the recorded system calls.
"""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from tests.effort import EVERYTHING, draws
from tests.faults import power_cut, strace
from tests.faults.driver import CommandStory, Stage, find_faults, set_stage
from tests.faults.lives import TIERED
from tests.faults.place import Place, Run, Shown
from tests.faults.stories import STORIES, LifeCommand
from tests.warm import KODE

DISKS = 500 if EVERYTHING else 8
"""Of each story."""
SHORT = LifeCommand(TIERED, 0)
RECORDED = [
    story for story in STORIES if isinstance(story, CommandStory) and not story.is_sandboxed
]

State = tuple[power_cut.Tree, Shown]

pytestmark = pytest.mark.timeout(7200 if EVERYTHING else 600)


@pytest.fixture(scope="module")
def stage_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[CommandStory], Stage]:
    """A story on its stage, prepared once. Skips where processes cannot be traced."""
    stages: dict[CommandStory, Stage] = {}

    def set_once(story: CommandStory) -> Stage:
        strace.needed()
        if story not in stages:
            stages[story] = set_stage(story, tmp_path_factory.mktemp("stage"))
        stages[story].place.restore()
        return stages[story]

    return set_once


def record(stage: Stage) -> list[strace.Call]:
    """What a story does to files, from what its place holds now."""
    place, story = stage.place, stage.story
    assert isinstance(story, CommandStory)
    line = [sys.executable, KODE, *story.argv(place)]
    calls, run = strace.record(line, environ=place.environ, cwd=place.project)
    assert run.code == 0, run.err
    return calls


def make_disk(place: Place) -> power_cut.Disk:
    """The disk before the story. Left out are indexes for searching, which are made anew, locks,
    which hold nothing, and the temporary folder."""

    def is_left_out(path: str) -> bool:
        return (
            "/.search" in path or path.endswith("/.lock") or path.startswith(f"{place.temporary}/")
        )

    place.restore()
    return power_cut.Disk(place.folder, is_left_out)


def disks(stage: Stage, calls: Sequence[strace.Call]) -> Iterator[State]:
    """Every disk that may be left at some moment, with what had been shown by then."""
    disk = make_disk(stage.place)
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
def test_a_power_cut_loses_nothing_that_was_shown(
    story: CommandStory, stage_of: Callable[[CommandStory], Stage]
) -> None:
    stage = stage_of(story)
    every = list(disks(stage, record(stage)))
    chosen = draws(story.name).sample(every, min(DISKS, len(every)))
    faults: Counter[str] = Counter()
    for tree, shown in chosen:
        build(stage.place, tree)
        faults.update(find_faults(stage, shown))
    print(f"\n{story.name}: {len(chosen)} of {len(every)} disks")
    assert faults == {}


def without_syncs(calls: Iterable[strace.Call], part: str, *, folders: bool) -> list[strace.Call]:
    """The same calls of a program that does not sync its folders, or its files, in one part of its
    home."""
    calls = list(calls)
    names = {call.paths[0] for call in calls if call.name.startswith(("mkdir", "rename", "unlink"))}
    parents = {os.path.dirname(name) for name in names}
    return [
        call
        for call in calls
        if call.name not in ("fsync", "fdatasync")
        or part not in call.paths[0]
        or (call.paths[0] in parents) is not folders
    ]


@pytest.mark.parametrize("folders", [True, False], ids=["folders", "files"])
@pytest.mark.parametrize("part", ["/sessions", "/memory"])
def test_the_model_would_find_a_sync_left_out(
    part: str, folders: bool, stage_of: Callable[[CommandStory], Stage]
) -> None:
    stage = stage_of(SHORT)
    calls = without_syncs(record(stage), part, folders=folders)
    for tree, shown in disks(stage, calls):
        build(stage.place, tree)
        if SHORT.missing(stage.place, shown):
            return
    raise AssertionError("a lost sync was not found")
