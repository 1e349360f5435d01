"""Packs a session into one file that another person can replay: messages, undo data of files, the
tools as sent to the model. Keys are masked.

A ZIP with `cassette.json`, `session.jsonl`, `changes.jsonl`, `contents/` and `tools/`. A file from
somebody else is data: only names of this form are read, none is unpacked by its own path.
"""

import contextlib
import hashlib
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kode import __version__, durable, paths
from kode.credentials import redact
from kode.errors import KodeError, SessionError
from kode.messages import first_of, images_of, plural
from kode.permissions.sensitive import is_named_like_keys
from kode.plain_text import Encoding
from kode.replay.recording import Recording, make
from kode.session.checkpoints import LOG
from kode.session.content_store import MEGABYTE, is_digest
from kode.session.entries import MessageEntry, RequestEntry, line_of
from kode.session.messages import turns_of
from kode.session.reading import ID, read
from kode.tools.files import Binary, decode

VERSION = 1
MAX_CONTENTS_BYTES = 32 * MEGABYTE
"""Limit of files in a cassette; the smallest are packed first."""
MAX_UNPACKED_BYTES = 512 * MEGABYTE
"""Limit of an unpacked cassette: a small file can expand to much more."""
NAMED_FILES = 8
_NAMES = re.compile(r"cassette\.json|session\.jsonl|changes\.jsonl|(?:contents|tools)/[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Cassette:
    """A cassette before it is written."""

    data: bytes
    about: tuple[str, ...]
    """What in it is personal, and what was left out, a line each."""


def pack(recording: Recording) -> Cassette:
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
        file.writestr("changes.jsonl", changes)
        for state, data in kept.items():
            file.writestr(f"contents/{renamed[state]}", data)
        for name, data in _tools(recording).items():
            file.writestr(f"tools/{name}", data)
    names = dict.fromkeys(path for path, state, _ in files if state in kept)
    return Cassette(data=packed.getvalue(), about=tuple(_about(recording, list(names), left_out)))


def write(cassette: Cassette, path: Path) -> None:
    """Writes the cassette durably. Raises: StorageError."""
    durable.replace(path, cassette.data)


@contextlib.contextmanager
def open_cassette(path: Path) -> Iterator[Recording]:
    """Yields the recording in a cassette; unpacked files are removed at the end.

    Raises: SessionError for a file that is not a cassette; StorageError.
    """
    with tempfile.TemporaryDirectory(prefix="kode-cassette-") as name:
        try:
            made = _recording(path, Path(name))
        except KodeError:
            raise
        except (
            Exception
        ) as error:  # zipfile, zlib and json do not document what they raise for damage
            raise SessionError(
                f"{path} is not a cassette that this version of kode can read. "
                "`kode session export ID --format cassette FILE` writes one."
            ) from error
        yield made


def _recording(path: Path, folder: Path) -> Recording:
    about = _unpack(path, folder)
    session = folder / f"{about['session']}.jsonl"
    (folder / "session.jsonl").rename(session)
    header, entries, _ = read(session)
    return make(
        header,
        entries,
        folder,
        project=str(about["project"]),
        home=str(about["home"]),
        tools_home=folder,
    )


def _unpack(path: Path, folder: Path) -> dict[str, object]:
    """Raises: SessionError, StorageError, and what zipfile and json raise."""
    contents, tools = folder, paths.tool_texts(folder)
    tools.mkdir(parents=True)
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
        if not ID.fullmatch(str(about["session"])):
            raise ValueError("the session has no id")
        for info in infos:
            kind, _, name = info.filename.rpartition("/")
            target = {"contents": contents, "tools": tools}.get(kind, folder)
            (target / name).write_bytes(file.read(info))
    return about


def _files(recording: Recording) -> list[tuple[str, str, bytes]]:
    """(path, state, content) of what undo keeps, and of files that are still as a change left them.
    Masked, and without files that hold keys: not every key looks like one."""
    found: dict[str, tuple[str, str, bytes]] = {}
    for group in recording.groups:
        for path, changes in group.files.items():
            for change in changes if not _holds_keys(path) else ():
                for state in (change.before, change.after):
                    if state is None or not is_digest(state) or state in found:
                        continue
                    data = recording.contents.data(state)
                    if data is None and recording.contents.see(Path(path)).state == state:
                        with contextlib.suppress(OSError):
                            data = Path(path).read_bytes()
                    if data is not None:
                        found[state] = (path, state, _mask(data))
    return list(found.values())


def _holds_keys(path: str) -> bool:
    return is_named_like_keys(path, is_folder=False)


def _mask(data: bytes) -> bytes:
    try:
        text, encoding = decode(data)
    except Binary:
        text, encoding = data.decode("latin-1"), Encoding(codec="latin-1")
    return encoding.bom + redact(text).encode(encoding.codec)


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
        data = (recording.contents.folder / LOG).read_bytes()
    except OSError:
        data = b""
    return redact(data.decode("utf-8", "replace"))


def _tools(recording: Recording) -> dict[str, bytes]:
    """The texts of the tools that the requests name."""
    found = {}
    for entry in recording.entries:
        if isinstance(entry, RequestEntry) and entry.tools_kept and is_digest(entry.tools_kept):
            with contextlib.suppress(OSError):
                path = paths.tool_texts(recording.tools_home) / entry.tools_kept
                found[entry.tools_kept] = path.read_bytes()
    return found


def _about(recording: Recording, files: list[str], left_out: int) -> Iterator[str]:
    entries = recording.entries
    turns = turns_of(entries)
    yield f"{plural(turns, 'turn')}: what you and the model said, with all results"
    if files:
        yield f"the contents of these files: {', '.join(first_of(files, NAMED_FILES))}"
    if hidden := [path for one in recording.groups for path in one.files if _holds_keys(path)]:
        yield f"left out, because they hold keys: {', '.join(dict.fromkeys(hidden))}"
    yield f"paths of this machine: {recording.project}, {recording.home}"
    _, request = recording.first_request()
    if request is not None and any(part.name == "memory" for part in request.system or ()):
        yield "what kode remembered of you and the project, as the model was shown it"
    if left_out:
        yield (
            f"left out: {left_out} contents of files, over {MAX_CONTENTS_BYTES // MEGABYTE} MB "
            "in all"
        )
    if any(isinstance(one, MessageEntry) and images_of(one) for one in entries):
        yield "left out: images"
    yield "masked: anything that looks like a key"
