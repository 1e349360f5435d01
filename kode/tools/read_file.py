"""`read_file`: shows a window of numbered lines of a text file, pages of a PDF, cells of a
notebook, or a picture. `list_files` shows folders."""

import asyncio
import codecs
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Annotated, Literal

from kode import paths
from kode.errors import StorageError, ToolError, UserError
from kode.function_tool import tool
from kode.images import MAX_READ_BYTES, PDF, Picture, fitting, keep, looks_of
from kode.messages import Image, plural
from kode.plain_text import encoding_by_mark, lines_of
from kode.session.messages import EARLIER
from kode.tool import Brief, ToolContext, ToolOutput
from kode.tools import documents, files

MAX_LINES = 2_000  # most source files whole
MAX_LINE_CHARS = 2_000  # longer lines are minified or data
MAX_BYTES = 50 * 1024  # about 12,000 tokens

_HEAD_BYTES = 64  # more than the signature of any format
_PIECE_BYTES = 65_536  # larger reads are no faster
_LINE_START_BYTES = 4 * MAX_LINE_CHARS + 4


@dataclass(slots=True)
class _Window:
    """The requested lines of a file, as far as it has them."""

    lines: list[str] = field(default_factory=list)
    """The beginning of each requested line."""
    lengths: list[int] = field(default_factory=list)
    """The length of each requested line in bytes."""
    total: int | None = None
    """The number of lines in the file; None if it was not read to the end."""
    digest: str = ""
    """The content hash; "" for a file too large to be edited."""


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
    output = await asyncio.to_thread(_read, context, real, offset, limit, raw=show == "raw")
    if isinstance(output, ToolOutput):
        return output
    name, as_pictures = files.shown(context, real), show == "pictures"
    shown = await documents.pages(
        name, output, offset, limit, as_pictures=as_pictures, room=min(MAX_BYTES, context.room)
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
            is_notebook = path.suffix.lower() == ".ipynb" and not raw
            if is_notebook and (output := _notebook(context, path, file, offset, limit)):
                return output
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
        image = _store_image(context, Picture(path.name, data))
    except (UserError, StorageError) as error:
        raise ToolError(str(error)) from error
    text = f"{image.description}, {image.media_type}."
    return _output(context, path, text, image.description, (image,))


def _store_image(context: ToolContext, picture: Picture) -> Image:
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
    name, room = files.shown(context, path), min(MAX_BYTES, context.room)
    shown = documents.cells(name, data.decode(errors="replace"), offset, limit, room=room)
    if shown is None:
        return None
    return _document(context, path, shown, plural(shown.count, "cell"))


def _document(context: ToolContext, path: Path, shown: documents.Shown, summary: str) -> ToolOutput:
    text, images = shown.text, []
    for picture in shown.pictures:
        try:
            images.append(_store_image(context, picture))
        except (UserError, StorageError) as error:
            text += f"\n[{picture.name} is not shown: {error}]"
    return _output(context, path, text, summary, tuple(images))


def _window(file: IO[bytes], offset: int, limit: int) -> _Window:
    """Raises: files.Binary, OSError."""
    if os.fstat(file.fileno()).st_size <= files.MAX_WHOLE_BYTES:
        return _convert(file.read(), offset, limit)
    return _read_part(file, offset, limit)


def _convert(data: bytes, offset: int, limit: int) -> _Window:
    text, _encoding = files.decode(data)
    lines = lines_of(text)
    wanted = [line.removesuffix("\n") for line in lines[offset - 1 : offset - 1 + limit]]
    return _Window(
        lines=wanted,
        lengths=[len(line.encode()) for line in wanted],
        total=len(lines),
        digest=files.content_hash(data),
    )


def _read_part(file: IO[bytes], offset: int, limit: int) -> _Window:
    """Reads in bounded memory up to the last requested line of a file too large to be edited."""
    head = file.read(files.SNIFF_BYTES)
    mark = encoding_by_mark(head)
    if mark is not None and mark.codec != "utf-8":
        raise files.Binary(f"{mark.codec}, too large to convert")
    files.decode(head[: head.rfind(b"\n") + 1] or head)
    file.seek(len(mark.bom) if mark else 0)
    window = _Window()
    number, start, length = 1, b"", 0
    while number < offset + limit:
        piece = file.readline(_PIECE_BYTES)
        if b"\0" in piece:
            raise files.Binary("it has NUL bytes")
        length += len(piece)
        if number >= offset:
            start += piece[: _LINE_START_BYTES - len(start)]
        if piece.endswith(b"\n") or (not piece and length):
            if number >= offset:
                window.lines.append(_decode_line(start.removesuffix(b"\n")))
                window.lengths.append(length - piece.endswith(b"\n"))
            number, start, length = number + 1, b"", 0
        if not piece:
            window.total = number - 1
            break
    return window


def _decode_line(data: bytes) -> str:
    """The text of a line; a character that is cut at its end is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _render(
    window: _Window, offset: int, limit: int, room: int
) -> tuple[list[str], tuple[str, ...]]:
    """The numbered lines, and notes on what is left out. `room` is the limit in bytes where it is
    less than the usual one."""
    page = min(MAX_BYTES, room)
    shown: list[str] = []
    cut: list[str] = []
    size = 0
    for number, (line, length) in enumerate(
        zip(window.lines, window.lengths, strict=True), start=offset
    ):
        line = line.removesuffix("\r")
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
    elif last < window.total or offset > 1:
        why = more = ""
        if last < window.total:
            more = f" To go on: offset={last + 1}"
            if len(shown) < limit or limit > MAX_LINES:
                is_usual = page == MAX_BYTES
                share = f"{page:,} bytes, its share of this reply"
                why = f" ({'2,000 lines or 50 KB a call' if is_usual else share})"
        notes.append(f"[Lines {offset}-{last} of {window.total:,}{why}.{more}]")
    return shown, tuple(notes)
