"""What came of a replay, in lines for people and as JSON for programs."""

from collections.abc import Iterator
from typing import Any

from kode.messages import shorten
from kode.replay.play import Replay
from kode.replay.played import Step
from kode.replay.recording import Recording
from kode.replay.same import Difference

WHAT_CHARS = 48


def lines(recording: Recording, replay: Replay) -> Iterator[str]:
    """A line a step, the first difference as a diff, and what is to be known."""
    header = recording.header
    turns = len({step.turn for step in replay.steps})
    yield f"Session {header.id}, {header.model}: {_counted(turns, 'turn')} played again in a copy."
    width = max((len(shorten(step.what, WHAT_CHARS)) for step in replay.steps), default=0)
    for step in replay.steps:
        word = "same" if step.same else "differs"
        named = ", ".join(dict.fromkeys(map(name_of, step.differences)))
        what = f"{shorten(step.what, WHAT_CHARS):<{width}}"
        yield f"{step.number:>4}  {word:<7}  {what}  {named}".rstrip()
    found = replay.first_difference
    if found is not None:
        step, difference = found
        yield ""
        yield f"First difference: step {step.number}, {name_of(difference)}"
        yield difference.diff()
        yield ""
    yield from replay.notes
    same = sum(step.same for step in replay.steps)
    yield (
        f"Identical: all {_counted(len(replay.steps), 'step')}."
        if replay.same
        else f"Differs: {same} of {_counted(len(replay.steps), 'step')} as recorded."
    )


def as_json(recording: Recording, replay: Replay) -> dict[str, Any]:
    """The same for programs."""
    return {
        "session_id": recording.header.id,
        "identical": replay.same,
        "steps": [_step(step) for step in replay.steps],
        "notes": list(replay.notes),
    }


def name_of(difference: Difference) -> str:
    """Which part differs: `system: instructions`, `result: shell`."""
    return f"{difference.part}: {difference.name}"


def _step(step: Step) -> dict[str, Any]:
    return {
        "step": step.number,
        "turn": step.turn,
        "what": step.what,
        "same": step.same,
        "live": step.live,
        "from_record": step.answered,
        "differences": [
            {"part": one.part, "name": one.name, "diff": one.diff()} for one in step.differences
        ],
    }


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
