"""`read_file`: shows a window of numbered lines of a text file, pages of a PDF, cells of a
notebook, or a picture. `list_files` shows folders."""

import asyncio
import codecs
import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Annotated, Literal

from kode import paths
from kode.contracts import Brief, ToolContext, ToolOutput
from kode.errors import StorageError, ToolError, UserError
from kode.function_tool import tool
from kode.images import PDF, keep, looks_of
from kode.messages import Image, plural
from kode.pictures import MAX_READ_BYTES, Picture, fitting
from kode.plain_text import encoding_by_mark, lines_of
from kode.session.messages import EARLIER
from kode.tools import documents, files

MAX_LINES = 2_000  # most source files whole
MAX_LINE_CHARS = 2_000  # longer lines are minified or data
MAX_BYTES = 50 * 1024  # about 12,000 tokens
WHOLE_PASS_BYTES = 256 * 1024 * 1024
"""Files up to this size are read to the end, to count lines and hash the content; of larger ones
only the requested lines are read, and they cannot be edited."""

_HEAD_BYTES = 64  # more than the signature of any format
_PIECE_BYTES = 65_536  # larger reads are no faster
_KEPT_LINE_BYTES = 4 * MAX_LINE_CHARS + 4


@dataclass(slots=True)
class _Window:
    """The result of one pass over a file."""

    lines: list[bytes] = field(default_factory=list)
    """The beginning of each requested line, as bytes."""
    lengths: list[int] = field(default_factory=list)
    """The length of each requested line in bytes."""
    total: int | None = None
    """The number of lines in the file; None if it was not read to the end."""
    digest: str = ""
    """The content hash; "" if the file was not read to the end."""
    codec: str = "utf-8"


@tool(
    effect="read",
    subject="path",
    parallel=True,
    brief=Brief(
        description="Read a text file; each line is shown behind its number.",
        required=("path",),
        optional=("offset", "limit"),
    ),
)
async def read_file(
    context: ToolContext,
    path: str,
    offset: Annotated[int, "First line, PDF page or notebook cell"] = 1,
    limit: int = MAX_LINES,
    show: Annotated[
        Literal["pictures", "raw"] | None, "pictures of PDF pages; raw lines of a notebook"
    ] = None,
) -> ToolOutput:
    """Read a text file, PDF or notebook, or look at an image. A line is shown as number, tab,
    text; number and tab are not part of the file. Up to 50 KB a call."""
    if offset < 0:
        raise ToolError("`offset` counts lines from 1: give a positive number.")
    # Some models fill in 0 or -1 for what they mean to leave out.
    offset, limit = offset or 1, limit if limit > 0 else MAX_LINES
    if path.startswith(EARLIER):
        return _earlier(context, path.removeprefix(EARLIER).strip(), offset, limit)
    real = files.resolve(context, path)
    files.refuse_secret(context, real)
    # In a thread: a slow disk must not block the screen or Ctrl-C.
    found = await asyncio.to_thread(_read, context, real, offset, limit, raw=show == "raw")
    if isinstance(found, ToolOutput):
        return found
    name, as_pictures = files.shown(context, real), show == "pictures"
    shown = await documents.pages(
        name, found, offset, limit, as_pictures=as_pictures, room=min(MAX_BYTES, context.room)
    )
    return await asyncio.to_thread(_document, context, real, shown, plural(shown.count, "page"))


def _earlier(context: ToolContext, entry_id: str, offset: int, limit: int) -> ToolOutput:
    """Reads a text that a compaction dropped, from the session, not from a file."""
    text = context.earlier(entry_id)
    if text is None:
        raise ToolError(f"This session has nothing with the id {entry_id!r}: take one of the list.")
    window = _convert(text.encode("utf-8", "replace"), offset, min(limit, MAX_LINES))
    shown, notes = _render(window, offset, limit, context.room)
    return ToolOutput(text="\n".join(shown), notes=notes, summary=plural(len(shown), "line"))


def _read(
    context: ToolContext, path: Path, offset: int, limit: int, *, raw: bool
) -> ToolOutput | bytes:
    """The bytes of a PDF, which another process reads; of all else what the model gets."""
    name = files.shown(context, path)
    with os.fdopen(files.open_regular(context, path), "rb") as file:
        try:
            looks = looks_of(file.read(_HEAD_BYTES))
            if looks is not None and looks.media_type == PDF:
                return _whole(file)
            file.seek(0)
            if path.suffix.lower() == ".ipynb" and not raw:
                notebook = _notebook(context, path, file, offset, limit)
                if notebook is not None:
                    return notebook
            window = _window(file, offset, min(limit, MAX_LINES))
        except files.Binary as reason:
            if looks is not None:
                return _picture(context, path, _whole(file))
            raise ToolError(
                f"{name} is not a text file ({reason}). Use a shell command that knows its "
                "format, such as `file` or `xxd`."
            ) from None
        except OSError as error:
            raise ToolError(f"{name} could not be read: {error.strerror}.") from None
    if window.digest:
        context.seen_files[str(path)] = window.digest
    if window.total == 0:
        return _output(context, path, f"{name} is empty.", "empty")
    if not window.lines:
        count = f"{window.total:,} lines" if window.total is not None else "fewer lines"
        raise ToolError(f"{name} has {count}: `offset` {offset} is beyond its end.")
    shown, notes = _render(window, offset, limit, context.room)
    output = _output(context, path, "\n".join(shown), plural(len(shown), "line"))
    return replace(output, notes=notes)


def _output(
    context: ToolContext, path: Path, text: str, summary: str, pictures: tuple[Image, ...] = ()
) -> ToolOutput:
    return ToolOutput(
        text=text,
        summary=summary,
        pictures=pictures,
        files_read=(str(path),),
        untrusted=files.outside(context, path),
    )


def _whole(file: IO[bytes]) -> bytes:
    """The bytes of a PDF or a picture; one more than may be shown, if it has too many."""
    file.seek(0)
    return file.read(MAX_READ_BYTES + 1)


def _picture(context: ToolContext, path: Path, data: bytes) -> ToolOutput:
    try:
        image = _kept(context, Picture(path.name, data))
    except (UserError, StorageError) as error:
        raise ToolError(str(error)) from error
    text = f"{image.description}, {image.media_type}."
    return _output(context, path, text, image.description, (image,))


def _kept(context: ToolContext, picture: Picture) -> Image:
    """Raises: UserError, StorageError."""
    small = fitting(picture)
    return keep(paths.images_folder(context.place.outputs.parent), small.name, small.data)


def _notebook(
    context: ToolContext, path: Path, file: IO[bytes], offset: int, limit: int
) -> ToolOutput | None:
    """None for a file that is no notebook, or too large for one."""
    data = file.read(files.MAX_WHOLE_BYTES + 1)
    file.seek(0)
    if len(data) > files.MAX_WHOLE_BYTES:
        return None
    name = files.shown(context, path)
    shown = documents.cells(
        name, data.decode(errors="replace"), offset, limit, room=min(MAX_BYTES, context.room)
    )
    if shown is None:
        return None
    return _document(context, path, shown, plural(shown.count, "cell"))


def _document(context: ToolContext, path: Path, shown: documents.Shown, summary: str) -> ToolOutput:
    text, images = shown.text, []
    for picture in shown.pictures:
        try:
            images.append(_kept(context, picture))
        except (UserError, StorageError) as error:
            text += f"\n[{picture.name} is not shown: {error}]"
    return _output(context, path, text, summary, tuple(images))


def _window(file: IO[bytes], offset: int, limit: int) -> _Window:
    """Raises: files.Binary, OSError."""
    head = file.read(files.SNIFF_BYTES)
    size = os.fstat(file.fileno()).st_size
    mark = encoding_by_mark(head)
    if mark is not None and mark.codec != "utf-8":
        if size > files.MAX_WHOLE_BYTES:
            raise files.Binary(f"{mark.codec} of {size:,} bytes, too large to convert")
        return _convert(head + file.read(), offset, limit)
    # A character may be cut at the end of the head; its start is left to the pass.
    files.decode(head if len(head) < files.SNIFF_BYTES else head[: _whole_characters(head)])
    file.seek(len(mark.bom) if mark else 0)
    bom = mark.bom if mark else b""
    return _passed(file, offset, limit, whole=size <= WHOLE_PASS_BYTES, bom=bom)


def _whole_characters(head: bytes) -> int:
    end = len(head)
    while end > len(head) - 4 and head[end - 1] & 0xC0 == 0x80:
        end -= 1
    return end - 1 if end and head[end - 1] >= 0xC0 else len(head)


def _convert(data: bytes, offset: int, limit: int) -> _Window:
    text, _encoding = files.decode(data)
    lines = lines_of(text)
    wanted = [line.rstrip("\n").encode() for line in lines[offset - 1 : offset - 1 + limit]]
    return _Window(
        lines=[line[:_KEPT_LINE_BYTES] for line in wanted],
        lengths=[len(line) for line in wanted],
        total=len(lines),
        digest=files.content_hash(data),
    )


def _passed(file: IO[bytes], offset: int, limit: int, *, whole: bool, bom: bytes) -> _Window:
    """One pass in bounded memory: keeps the requested lines, counts and hashes the rest."""
    window = _Window()
    digest = hashlib.sha256(bom)
    utf8: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
    number, at_start, kept, length = 1, True, b"", 0
    while whole or number < offset + limit:
        wanted = offset <= number < offset + limit
        piece = file.readline(_PIECE_BYTES) if wanted else _passed_over(file, offset - number)
        if not piece:
            break
        digest.update(piece)
        if b"\0" in piece:
            raise files.Binary("it has NUL bytes")
        utf8 = _still_utf8(utf8, piece)
        number += piece.count(b"\n")
        at_start = piece.endswith(b"\n")
        if not wanted:
            continue
        kept += piece[: _KEPT_LINE_BYTES - len(kept)]
        length += len(piece)
        if at_start:
            window.lines.append(kept.rstrip(b"\n"))
            window.lengths.append(length - 1)
            kept, length = b"", 0
    first_after = number if at_start else number + 1
    if kept:
        window.lines.append(kept)
        window.lengths.append(length)
    if utf8 is not None and not at_start:
        utf8 = _still_utf8(utf8, b"", final=True)
    window.codec = "utf-8" if utf8 is not None else "latin-1"
    if whole or not file.read(1):
        window.total, window.digest = first_after - 1, digest.hexdigest()
    return window


def _passed_over(file: IO[bytes], lines: int) -> bytes:
    """Reads a piece without requested lines: it ends with the last of this many lines if that is
    within reach; with `lines` at or below 0 nothing more is requested."""
    piece = file.read(_PIECE_BYTES * 16)
    if lines <= 0 or piece.count(b"\n") < lines:
        return piece
    end = 0
    for _ in range(lines):
        end = piece.index(b"\n", end) + 1
    file.seek(end - len(piece), os.SEEK_CUR)
    return piece[:end]


def _still_utf8(
    decoder: codecs.IncrementalDecoder | None, piece: bytes, *, final: bool = False
) -> codecs.IncrementalDecoder | None:
    """The decoder while all bytes so far are UTF-8, then None."""
    if decoder is None:
        return None
    try:
        decoder.decode(piece, final)
    except UnicodeDecodeError:
        return None
    return decoder


def _render(
    window: _Window, offset: int, limit: int, room: int
) -> tuple[list[str], tuple[str, ...]]:
    """The numbered lines, and notes on what is left out. `room` is the limit in bytes where it is
    less than the usual one."""
    page = min(MAX_BYTES, room)
    shown: list[str] = []
    cut: list[str] = []
    size = 0
    for number, (data, length) in enumerate(
        zip(window.lines, window.lengths, strict=True), start=offset
    ):
        line = data.decode(window.codec, errors="ignore").removesuffix("\r")
        if len(line) > MAX_LINE_CHARS:
            line = line[:MAX_LINE_CHARS]
            cut.append(f"{number} ({length:,} bytes)")
        text = f"{number}\t{line}"
        size += len(text.encode(errors="replace")) + 1
        if size > page and shown:
            break
        shown.append(text)
    last = offset + len(shown) - 1
    notes: list[str] = []
    if cut:
        lines = ", ".join(cut[:5]) + (" and others" if len(cut) > 5 else "")
        first = cut[0].split(" ")[0]
        notes.append(
            f"[Cut at {MAX_LINE_CHARS:,} characters: line {lines}. For the rest use shell: "
            f"sed -n {first}p FILE | cut -c{MAX_LINE_CHARS + 1}-]"
        )
    if window.total is None:
        notes.append(
            f"[Lines {offset}-{last} of a very large file. To go on: offset={last + 1}. "
            "Search it to find a place in it.]"
        )
    elif last < window.total and (len(shown) < limit or limit > MAX_LINES):
        most = (
            "2,000 lines or 50 KB a call"
            if page == MAX_BYTES
            else f"{page:,} bytes, its share of this reply"
        )
        notes.append(
            f"[Lines {offset}-{last} of {window.total:,} ({most}). To go on: offset={last + 1}]"
        )
    elif last < window.total or offset > 1:
        more = f" To go on: offset={last + 1}" if last < window.total else ""
        notes.append(f"[Lines {offset}-{last} of {window.total:,}.{more}]")
    return shown, tuple(notes)
