"""`kode replay`: replays a session or a cassette offline, and reports what differs."""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kode.plugin import (
    Parser,
    SessionError,
    Transcript,
    find_session,
    kode_home,
    load_config,
    plural,
    print_either,
    project_root,
    session_file,
    working_directory,
)
from kode.plugins.replay.comparison import Difference
from kode.plugins.replay.recording import Recording, read_cassette, recording_of
from kode.plugins.replay.replay import RecordedProvider, play


def main(argv: Sequence[str]) -> int:
    """Runs `kode replay` and returns its exit code: 0 if identical, 1 if different.

    Raises: UserError, SessionError, StorageError.
    """
    parser = Parser("kode replay", "Replay a session from its record, and compare its requests.")
    add = parser.add_argument
    add("session", metavar="SESSION", help="a session id, any unique prefix, or a cassette")
    add("--cwd", metavar="DIR", help="another folder with the project's files")
    add("--json", action="store_true", help="one JSON object")
    return asyncio.run(_replay(parser.parse(argv)))


async def _replay(arguments: argparse.Namespace) -> int:
    recording, cwd = _read_recording(arguments)
    if not cwd.is_dir():
        raise SessionError(
            f"{cwd}, where session {recording.header.id} worked, no longer exists. "
            "Name a folder with the same files: --cwd DIR."
        )
    config = load_config(kode_home(), cwd, environ=os.environ, flags={}).config
    with tempfile.TemporaryDirectory(prefix="kode-replay-") as home:
        replay = await play(recording, config, home=Path(home), cwd=cwd)
    print_either(_as_json(recording, replay), _lines(recording, replay), as_json=arguments.json)
    return int(not replay.is_same)


def _read_recording(arguments: argparse.Namespace) -> tuple[Recording, Path]:
    """The named session or cassette, and the folder to replay it in."""
    if not Path(arguments.session).is_file():
        session_id = find_session(kode_home(), arguments.session)
        recording = recording_of(Transcript.read(session_file(kode_home(), session_id)))
        named = working_directory(arguments) if arguments.cwd else None
        return recording, named or Path(recording.header.cwd)
    recording = read_cassette(Path(arguments.session))
    then, project = Path(recording.header.cwd), project_root(working_directory(arguments))
    is_inside = then.is_relative_to(recording.project) and ".." not in then.parts
    return recording, project / then.relative_to(recording.project) if is_inside else project


def _lines(recording: Recording, replay: RecordedProvider) -> Iterator[str]:
    """A line per step, the first difference as a diff, and notes."""
    header, steps = recording.header, replay.steps
    turns = plural(len({step.turn for step in steps}), "turn")
    yield f"Session {header.id}, {header.model}: {turns} replayed."
    width = max((len(step.summary) for step in steps), default=0)
    for step in steps:
        word = "differs" if step.differences else "same"
        names = ", ".join(dict.fromkeys(map(_name_of, step.differences)))
        yield f"{step.number:>4}  {word:<7}  {step.summary:<{width}}  {names}".rstrip()
    for step in [step for step in steps if step.differences][:1]:
        first = step.differences[0]
        yield f"\nFirst difference: step {step.number}, {_name_of(first)}\n{first.diff()}\n"
    yield from replay.notes
    same = sum(not step.differences for step in steps)
    yield (
        f"Identical: all {plural(len(steps), 'step')}."
        if replay.is_same
        else f"Differs: {same} of {plural(recording.steps, 'step')} as recorded."
    )


def _as_json(recording: Recording, replay: RecordedProvider) -> dict[str, Any]:
    steps = [
        {
            "step": step.number,
            "turn": step.turn,
            "what": step.summary,
            "same": not step.differences,
            "differences": [
                {"part": each.part, "name": each.name, "diff": each.diff()}
                for each in step.differences
            ],
        }
        for step in replay.steps
    ]
    return {
        "session_id": recording.header.id,
        "identical": replay.is_same,
        "steps": steps,
        "notes": replay.notes,
    }


def _name_of(difference: Difference) -> str:
    """Which part differs: `system: instructions`, `result: shell`."""
    return f"{difference.part}: {difference.name}"
