"""A session as one file that another person can replay: a line about it, then the lines of the
session. A file from somebody else is data."""

import contextlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kode.plugin import (
    ExportFile,
    KodeError,
    MessageEntry,
    SessionError,
    Transcript,
    durable,
    images_of,
    line_of,
    models,
    paths,
    plural,
)
from kode.plugin import kode_version as __version__
from kode.plugins.replay.played import Played
from kode.plugins.replay.recording import Recording, load, of_transcript

VERSION = 2  # counts the changes of the file's format
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


def export(transcript: Transcript) -> ExportFile:
    """The format `cassette` of `kode session export`. Raises: SessionError for a session with
    nothing to play; StorageError."""
    return pack(load(paths.home(), transcript.header.id))


@contextlib.contextmanager
def in_place(path: Path) -> Iterator[Played]:
    """See `Plugin.replays`. Raises: SessionError for a file that is not a cassette."""
    recording = read_cassette(path)
    yield Played(recording, info=models.info_of(recording.header.model), strict=True)


def pack(recording: Recording) -> ExportFile:
    """Packs a session."""
    header = recording.header
    about = {
        "type": "cassette",
        "version": VERSION,
        "kode": __version__,
        "project": recording.project,
        "home": recording.home,
    }
    lines = [json.dumps(about).encode(), line_of(header), *map(line_of, recording.entries)]
    return ExportFile(
        data=b"\n".join(lines) + b"\n",
        contains=tuple(_contents(recording)),
        then="`kode replay {path}` replays it.",
    )


def read_cassette(path: Path) -> Recording:
    """The recording in a cassette. Raises: SessionError for a file that is not one, or is of
    another version; StorageError."""
    with durable.storage_errors(path, "read"):
        about, _, session = path.read_bytes().partition(b"\n")
    try:
        return _recording(path, json.loads(about), session)
    except KodeError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SessionError(
            f"{path} is not a cassette. `kode session export ID --format cassette FILE` writes one."
        ) from error


def _recording(path: Path, about: dict[str, object], session: bytes) -> Recording:
    if about["type"] != "cassette":
        raise ValueError("another kind of file")
    if about["version"] != VERSION:
        raise SessionError(
            f"{path} is a cassette of version {about['version']}, and this kode reads version "
            f"{VERSION}. Record it again."
        )
    session_id = str(json.loads(session.partition(b"\n")[0])["id"])
    if not _ID.fullmatch(session_id):
        raise ValueError("the session has no id")
    with tempfile.TemporaryDirectory(prefix="kode-cassette-") as folder:
        file = Path(folder) / f"{session_id}.jsonl"
        file.write_bytes(session)
        transcript = Transcript.read(file)
    return of_transcript(transcript, project=str(about["project"]), home=str(about["home"]))


def _contents(recording: Recording) -> Iterator[str]:
    yield f"{plural(len(recording.turns), 'turn')}: what you and the model said, with all results"
    yield f"paths of this machine: {recording.project}, {recording.home}"
    begun = recording.beginning()
    if begun is not None and "memory" in begun.sections:
        yield "what kode remembered of you and the project, as the model was shown it"
    if any(isinstance(entry, MessageEntry) and images_of(entry) for entry in recording.entries):
        yield "left out: images"
    yield "masked: anything that looks like a key"
