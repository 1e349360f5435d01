"""Reports a replay, in lines for people and as JSON for programs."""

from collections.abc import Iterator
from typing import Any

from kode.plugin import plural, shorten
from kode.plugins.replay.play import Replay
from kode.plugins.replay.played import Step, first_difference
from kode.plugins.replay.recording import Recording
from kode.plugins.replay.same import Difference

WHAT_CHARS = 48  # a column beside the others in 80


def lines(recording: Recording, replay: Replay) -> Iterator[str]:
    """A line per step, the first difference as a diff, and notes."""
    header = recording.header
    turns = len({step.turn for step in replay.steps})
    yield f"Session {header.id}, {header.model}: {plural(turns, 'turn')} replayed."
    width = max((len(shorten(step.what, WHAT_CHARS)) for step in replay.steps), default=0)
    for step in replay.steps:
        word = "same" if step.same else "differs"
        named = ", ".join(dict.fromkeys(map(name_of, step.differences)))
        what = f"{shorten(step.what, WHAT_CHARS):<{width}}"
        yield f"{step.number:>4}  {word:<7}  {what}  {named}".rstrip()
    found = first_difference(replay.steps)
    if found is not None:
        step, difference = found
        yield ""
        yield f"First difference: step {step.number}, {name_of(difference)}"
        yield difference.diff()
        yield ""
    yield from replay.notes
    same = sum(step.same for step in replay.steps)
    yield (
        f"Identical: all {plural(len(replay.steps), 'step')}."
        if replay.same
        else f"Differs: {same} of {plural(recording.steps(), 'step')} as recorded."
    )


def as_json(recording: Recording, replay: Replay) -> dict[str, Any]:
    """The outcome for programs."""
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
        "differences": [
            {"part": each.part, "name": each.name, "diff": each.diff()} for each in step.differences
        ],
    }
