"""Plays a story with one fault in it, starts kode again, and says what is wrong then."""

from dataclasses import dataclass
from pathlib import Path

from tests.effort import EVERYTHING, draws
from tests.faults.checks import has_replied, unfit
from tests.faults.injected import Injection
from tests.faults.place import Place, Run, Shown, Tree

KILLS = 3
"""Of each story, where not all calls are tried."""


class Story:
    """What is done in a place, and what must hold if a fault comes in between."""

    name: str
    is_sandboxed = False
    """Whether a command of it runs in the sandbox."""

    def prepare(self, place: Place) -> Shown:
        """What comes before; returns what was shown."""
        raise NotImplementedError

    def do(self, place: Place, injection: Injection | None = None) -> Run:
        """What the fault comes into; what it has shown is the output of the run."""
        raise NotImplementedError

    def start_again(self, place: Place, shown: Shown) -> Run:
        """The next start, which finishes what was cut short."""
        raise NotImplementedError

    def missing(self, place: Place, shown: Shown) -> list[str]:
        """What was shown and is not there, right after the fault as after the next start."""
        return []

    def unfinished(self, stage: "Stage", shown: Shown, told: Run) -> list[str]:
        """What is wrong after the next start, `told`, which may try how the story goes on."""
        return []


class CommandStory(Story):
    """What one command does."""

    def argv(self, place: Place) -> list[str]:
        """Its arguments."""
        raise NotImplementedError

    def do(self, place: Place, injection: Injection | None = None) -> Run:
        return place.kode(*self.argv(place), injection=injection)


@dataclass(frozen=True)
class Stage:
    """A story that has been prepared, and once been played without a fault."""

    story: Story
    place: Place
    before: Shown
    trees: tuple[Tree, Tree]
    """The project before the story and after it."""
    events: list[str]
    """What changed files, in order: the names of `injected`."""
    sentences: list[str]
    """What is on the standard error without a fault."""

    def play(self, injection: Injection) -> tuple[Run, Shown]:
        """Plays the story from its beginning; also returns all that was shown."""
        self.place.restore()
        run = self.story.do(self.place, injection)
        return run, [*self.before, *run.shown]


def set_stage(story: Story, folder: Path) -> Stage:
    place = Place(folder / "place")
    before = story.prepare(place)
    place.keep()
    tree, events = place.tree, folder / "events"
    run = story.do(place, Injection(listed_in=str(events)))
    assert run.code == 0, run.err
    stage = Stage(
        story, place, before, (tree, place.tree), events.read_text().split(), run.sentences
    )
    shown = [*before, *run.shown]
    assert (missing := story.missing(place, shown)) == [], missing
    return stage


def find_faults(stage: Stage, shown: Shown) -> list[str]:
    """What is wrong in the place after a fault, and after the next start."""
    story, place = stage.story, stage.place
    faults = place.living() + story.missing(place, shown)
    told = story.start_again(place, shown)
    if told.code == 3 and "no session" in told.err and not has_replied(shown):
        return faults
    if told.code != 0 or "Traceback" in told.err:
        return [*faults, f"does not start ({told.code}): {told.err[-400:]}\n{place.report}"]
    faults += story.missing(place, shown) + story.unfinished(stage, shown, told)
    return faults + unfit(place)


def try_kills(story: Story, folder: Path) -> None:
    """Kills kode at its own calls that change files. Raises: AssertionError where something is
    wrong after one."""
    stage = set_stage(story, folder)
    every = range(1, len(stage.events) + 1)
    numbers = every if EVERYTHING else draws(story.name).sample(every, min(KILLS, len(every)))
    faults: list[str] = []
    kills = 0
    for number in numbers:
        run, shown = stage.play(Injection(number))
        kills += run.is_killed
        faults += [f"{number}: {fault}" for fault in find_faults(stage, shown)]
    print(f"\n{story.name}: {kills} kills at {len(numbers)} of {len(stage.events)} events")
    assert faults == [], "\n".join(faults)
    # With threads the number of events differs from run to run.
    assert kills >= int(len(numbers) * 0.6)
