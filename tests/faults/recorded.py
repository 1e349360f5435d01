"""A life that was lived once under `strace`: what it did to the disk, what it showed, and what
there was before each of its commands, so that it can be lived again from there and cut short.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import power_cut, strace
from tests.faults.kode_run import Event, Place, events, remove
from tests.faults.lives import Life


@dataclass
class Recorded:
    life: Life
    place: Place
    before: list[Path] = field(default_factory=list)
    """A copy of the place before each command."""
    shown: list[list[Event]] = field(default_factory=list)
    """Every event before the calls of each command, and that it was begun."""
    calls: list[list[strace.Call]] = field(default_factory=list)
    """Of each command."""

    def restore(self, number: int) -> None:
        """Puts back what there was before a command."""
        remove(self.place.folder)
        shutil.copytree(self.before[number], self.place.folder, symlinks=True)

    def every_call(self) -> list[strace.Call]:
        return [call for calls in self.calls for call in calls]

    def disk(self, leave_out: Callable[[str], bool]) -> power_cut.Disk:
        """The disk before the first command."""
        self.restore(0)
        return power_cut.Disk(self.place.folder, leave_out)

    def moments(self, calls: Sequence[strace.Call]) -> Iterator[tuple[strace.Call, list[Event]]]:
        """Each of the calls, with all that had been shown when it was made."""
        begins = {id(made[0]): shown for made, shown in zip(self.calls, self.shown, strict=True)}
        out = b""
        before: list[Event] = []
        shown: list[Event] = []
        for call in calls:
            if id(call) in begins:
                out, before = b"", begins[id(call)]
                shown = list(before)
            if self.is_shown(call):
                out += call.data
                shown = [*before, *events(out)]
            yield call, shown

    def is_shown(self, call: strace.Call) -> bool:
        """Whether it wrote to the standard output that the person sees: not a child's, not a
        command's."""
        mains = {calls[0].pid for calls in self.calls}
        return call.name == "write" and call.fd == 1 and call.pid in mains


def live(life: Life, folder: Path) -> Recorded:
    """Lives a life once, in a place below `folder`."""
    recorded = Recorded(life, Place(folder / "place"))
    place = recorded.place
    life.prepare(place)
    shown: list[Event] = []
    for number in range(len(life.commands)):
        argv = life.argv(place, number)
        kept = folder / f"before-{number}"
        shutil.copytree(place.folder, kept, symlinks=True)
        recorded.before.append(kept)
        shown.append({"type": "command", "words": life.names[number]})
        recorded.shown.append(list(shown))
        calls, done = strace.record(argv, environ=place.environment(), cwd=place.project)
        assert done.returncode == 0, done.stderr
        recorded.calls.append(calls)
        shown += events(done.stdout)
    assert (gone := life.missing(place, shown)) == [], gone
    assert life.unreadable(place) == []
    return recorded
