"""Packs a session into one file that another person can replay: its entries, and the undo data of
files. Keys are masked.

A ZIP with `cassette.json`, `session.jsonl`, `changes.jsonl` and `contents/`. A file from somebody
else is data: only names of this form are read, none is unpacked by its own path.
"""

import codecs
import contextlib
import hashlib
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from kode.plugin import (
    ExportFile,
    Transcript,
    credentials,
    durable,
    is_named_like_keys,
    models,
    paths,
)
from kode.plugin import kode_version as __version__
from kode.plugin.entries import MessageEntry, line_of
from kode.plugin.errors import KodeError, SessionError
from kode.plugin.messages import first_of, images_of, plural
from kode.plugins.replay.played import Played
from kode.plugins.replay.recording import Recording, load, of_transcript

MEGABYTE = 1024 * 1024  # bytes
LOG = "changes.jsonl"
"""The record of file changes, beside the contents."""
VERSION = 1  # counts the changes of the file's format
MAX_CONTENTS_BYTES = 32 * MEGABYTE
"""Limit of files in a cassette; the smallest are packed first."""
MAX_UNPACKED_BYTES = 512 * MEGABYTE
"""Limit of an unpacked cassette: a small file can expand to much more."""
NAMED_FILES = 8  # a sentence that can be read
ENCODINGS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"", "utf-8"),
)
"""Byte order mark → how such a file is encoded."""
_NAMES = re.compile(r"cassette\.json|session\.jsonl|changes\.jsonl|contents/[0-9a-f]{64}")
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


def export(transcript: Transcript) -> ExportFile:
    """The format `cassette` of `kode session export`. Raises: SessionError for a session with
    nothing to play; StorageError."""
    return pack(load(paths.home(), transcript.header.id))


@contextlib.contextmanager
def in_place(path: Path) -> Iterator[Played]:
    """See `Plugin.replays`. Raises: SessionError for a file that is not a cassette."""
    with open_cassette(path) as recording:
        yield Played(recording, info=models.info_of(recording.header.model), strict=True)


def pack(recording: Recording) -> ExportFile:
    """Packs a session. Raises: StorageError."""
    header, files = recording.header, _files(recording)
    kept, left_out = _within_limit({state: data for _, state, data in files})
    # Masking changes a content's hash: the log must use the new name.
    renamed = {state: hashlib.sha256(data).hexdigest() for state, data in kept.items()}
    changes = _log(recording)
    for then, now in renamed.items():
        changes = changes.replace(then, now)
    about = {
        "version": VERSION,
        "kode": __version__,
        "session": header.id,
        "project": recording.project,
        "home": recording.home,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("cassette.json", json.dumps(about))
        lines = [line_of(header), *map(line_of, recording.entries)]
        file.writestr("session.jsonl", b"\n".join(lines) + b"\n")
        file.writestr(LOG, changes)
        for state, data in kept.items():
            file.writestr(f"contents/{renamed[state]}", data)
    names = dict.fromkeys(path for path, state, _ in files if state in kept)
    return ExportFile(
        data=packed.getvalue(),
        contains=tuple(_about(recording, list(names), left_out)),
        then="`kode replay {path}` replays it.",
    )


@contextlib.contextmanager
def open_cassette(path: Path) -> Iterator[Recording]:
    """Yields the recording in a cassette; unpacked files are removed at the end.

    Raises: SessionError for a file that is not a cassette; StorageError.
    """
    with tempfile.TemporaryDirectory(prefix="kode-cassette-") as name:
        try:
            recording = _recording(path, Path(name))
        except KodeError:
            raise
        except (
            Exception
        ) as error:  # zipfile, zlib and json do not document what they raise for damage
            raise SessionError(
                f"{path} is not a cassette that this version of kode can read. "
                "`kode session export ID --format cassette FILE` writes one."
            ) from error
        yield recording


def _recording(path: Path, folder: Path) -> Recording:
    about = _unpack(path, folder)
    session = folder / f"{about['session']}.jsonl"
    (folder / "session.jsonl").rename(session)
    transcript = Transcript.read(session)
    return of_transcript(transcript, folder, project=str(about["project"]), home=str(about["home"]))


def _unpack(path: Path, folder: Path) -> dict[str, object]:
    """Raises: SessionError, StorageError, and what zipfile and json raise."""
    with durable.storage_errors(path, "read"), zipfile.ZipFile(path) as file:
        infos = [info for info in file.infolist() if _NAMES.fullmatch(info.filename)]
        if sum(info.file_size for info in infos) > MAX_UNPACKED_BYTES:
            raise SessionError(
                f"{path} unpacks to more than {MAX_UNPACKED_BYTES // MEGABYTE} MB. Cassettes of "
                "kode are smaller: ask for another one."
            )
        about: dict[str, object] = json.loads(file.read("cassette.json"))
        if about["version"] != VERSION:
            raise SessionError(f"{path} was written by a newer kode. Update kode to play it.")
        if not _ID.fullmatch(str(about["session"])):
            raise ValueError("the session has no id")
        for info in infos:
            (folder / info.filename.rpartition("/")[2]).write_bytes(file.read(info))
    return about


def _files(recording: Recording) -> list[tuple[str, str, bytes]]:
    """(path, state, content) of what undo keeps, and of files that are still as a change left them.
    Masked, and without files that hold keys: not every key looks like one."""
    found: dict[str, tuple[str, str, bytes]] = {}
    contents = recording.changes.contents
    for group in recording.changes.groups:
        for path, changes in group.files.items():
            states = (state for change in changes for state in (change.before, change.after))
            for state in states if not _holds_keys(path) else ():
                if state is None or state in found:
                    continue
                data, seen = contents.data(state), contents.see(Path(path))
                if data is None and seen.state == state and seen.is_file:
                    with contextlib.suppress(OSError):
                        data = Path(path).read_bytes()
                if data is not None:
                    found[state] = (path, state, _mask(data))
    return list(found.values())


def _holds_keys(path: str) -> bool:
    return is_named_like_keys(path, is_folder=False)


def _mask(data: bytes) -> bytes:
    """In the encoding that its byte order mark names, else as UTF-8, else byte by byte."""
    for mark, codec in ENCODINGS:
        if data.startswith(mark):
            with contextlib.suppress(UnicodeDecodeError):
                text = data.removeprefix(mark).decode(codec)
                return mark + credentials.redact(text).encode(codec)
    return credentials.redact(data.decode("latin-1")).encode("latin-1")


def _within_limit(contents: dict[str, bytes]) -> tuple[dict[str, bytes], int]:
    """The contents that fit, and the number of those that do not."""
    kept: dict[str, bytes] = {}
    room = MAX_CONTENTS_BYTES
    for state, data in sorted(contents.items(), key=lambda item: len(item[1])):
        room -= len(data)
        if room >= 0:
            kept[state] = data
    return kept, len(contents) - len(kept)


def _log(recording: Recording) -> str:
    try:
        data = (recording.changes.contents.folder / LOG).read_bytes()
    except OSError:
        data = b""
    return credentials.redact(data.decode("utf-8", "replace"))


def _about(recording: Recording, files: list[str], left_out: int) -> Iterator[str]:
    entries = recording.entries
    yield f"{plural(len(recording.turns), 'turn')}: what you and the model said, with all results"
    if files:
        yield f"the contents of these files: {', '.join(first_of(files, NAMED_FILES))}"
    if hidden := [
        path for group in recording.changes.groups for path in group.files if _holds_keys(path)
    ]:
        yield f"left out, because they hold keys: {', '.join(dict.fromkeys(hidden))}"
    yield f"paths of this machine: {recording.project}, {recording.home}"
    begun = recording.beginning()
    if begun is not None and "memory" in begun.sections:
        yield "what kode remembered of you and the project, as the model was shown it"
    if left_out:
        yield (
            f"left out: {left_out} contents of files, over {MAX_CONTENTS_BYTES // MEGABYTE} MB "
            "in all"
        )
    if any(isinstance(entry, MessageEntry) and images_of(entry) for entry in entries):
        yield "left out: images"
    yield "masked: anything that looks like a key"
