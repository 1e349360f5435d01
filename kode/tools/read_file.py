"""`read_file`: shows a window of numbered lines of a text file, pages of a PDF, cells of a
notebook, or a picture. `list_files` shows folders."""

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard

from kode import paths
from kode.errors import StorageError, ToolError, UserError
from kode.images import MAX_READ_BYTES, PDF, Picture, fit_picture, read_header, save_picture
from kode.installed import require_extra
from kode.messages import plural
from kode.plain_text import split_lines
from kode.session.messages import EARLIER
from kode.tool import ToolContext, ToolOutput, tool
from kode.tools import files, pdf_worker
from kode.tools.processes import ask_worker

MAX_LINES = 2_000  # most source files whole
MAX_LINE_CHARS = 2_000  # longer lines are minified or data
MAX_BYTES = 50 * 1024  # about 12,000 tokens

_HEAD_BYTES = 64  # more than the signature of any format
PDF_S = 60.0  # a long book on a slow machine
MAX_PICTURES = 10
"""The most in one call: a model pays about 1,600 tokens for each."""
MAX_OUTPUT_CHARS = 4_000
"""The most characters of one output of a cell; both ends of a longer one are shown."""

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class FileView(NamedTuple):
    """What a model is shown of a file, a page of a PDF, or a cell of a notebook."""

    text: str = ""
    summary: str = ""
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()


@tool(
    effect="read",
    subject="path",
    parallel=True,
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
        name = path.removeprefix(EARLIER).strip()
        if (text := context.earlier(name)) is None:
            raise ToolError(f"This session has nothing with the id {name!r}: take one of the list.")
        part = _number_lines("The text", text, offset, limit, context.room)
        return ToolOutput(text=part.text, notes=part.notes, summary=part.summary)
    real = files.resolve(context, path)
    # In a thread: a slow disk must not block the screen or Ctrl-C.
    output = await asyncio.to_thread(_read_view, context, real, offset, limit, raw=show == "raw")
    if isinstance(output, ToolOutput):
        return output
    name, room = files.display_path(context, real), min(MAX_BYTES, context.room)
    view = await _read_pages(name, output, offset, limit, as_pictures=show == "pictures", room=room)
    return await asyncio.to_thread(_keep_pictures, context, real, view)


def _read_view(
    context: ToolContext, path: Path, offset: int, limit: int, *, raw: bool
) -> ToolOutput | bytes:
    """The result for the model; for a PDF its bytes, which another process reads."""
    name, room = files.display_path(context, path), min(MAX_BYTES, context.room)
    with files.open_regular(context, path) as file:
        looks = read_header(file.read(_HEAD_BYTES))
        file.seek(0)
        data = file.read((files.MAX_WHOLE_BYTES if looks is None else MAX_READ_BYTES) + 1)
    if looks is not None and looks.media_type == PDF:
        return data
    if path.suffix.lower() == ".ipynb" and not raw:
        text = data.decode(errors="replace")
        if view := _read_cells(name, text, offset, limit, room=room):
            return _keep_pictures(context, path, view)
    try:
        text, _ = files.decode_text(data)
    except files.Binary as reason:
        if looks is not None:
            return _keep_pictures(context, path, FileView(pictures=(Picture(path.name, data),)))
        raise ToolError(
            f"{name} is not a text file ({reason}). Use a shell command that knows its "
            "format, such as `file` or `xxd`."
        ) from None
    files.refuse_large(name, len(data))
    view = _number_lines(name, text, offset, limit, context.room)
    context.seen_files[str(path)] = files.content_hash(data)
    return _keep_pictures(context, path, view)


def _keep_pictures(context: ToolContext, path: Path, view: FileView) -> ToolOutput:
    text, summary, notes, pictures = view
    images = []
    for picture in pictures:
        try:
            small = fit_picture(picture)
            folder = paths.images_folder(context.place.outputs.parent)
            images.append(save_picture(folder, small.name, small.data))
        except (UserError, StorageError) as error:
            if not text:
                raise ToolError(str(error)) from error
            text += f"\n[{picture.name} is not shown: {error}]"
    if not text:
        summary = images[0].description
        text = f"{summary}, {images[0].media_type}."
    return ToolOutput(
        text=text,
        summary=summary,
        notes=notes,
        pictures=tuple(images),
        files_read=(str(path),),
        untrusted=files.find_outside_source(context, path),
    )


def _number_lines(name: str, text: str, offset: int, limit: int, room: int) -> FileView:
    """The numbered lines, and notes on what is left out. `room`, in bytes, can only lower the usual
    limit. Raises: ToolError for an offset beyond the end."""
    lines = split_lines(text)
    if not lines:
        return FileView(f"{name} is empty.", "empty")
    if offset > len(lines):
        raise _beyond_end_error(name, "line", offset, len(lines))
    page, size = min(MAX_BYTES, room), 0
    texts: list[str] = []
    cut: list[str] = []
    for number, line in enumerate(lines[offset - 1 :][: min(limit, MAX_LINES)], start=offset):
        line = line.removesuffix("\n").removesuffix("\r")
        shown = f"{number}\t{line[:MAX_LINE_CHARS]}"
        size += len(shown.encode(errors="replace")) + 1
        if size > page and texts:
            break
        texts.append(shown)
        if len(line) > MAX_LINE_CHARS:
            cut.append(f"{number} ({len(line.encode(errors='replace')):,} bytes)")
    last = offset + len(texts) - 1
    notes: list[str] = []
    if cut:
        notes.append(
            f"[Cut at {MAX_LINE_CHARS:,} characters: line {', '.join(cut)}. For the rest use "
            f"shell: sed -n {cut[0].split(' ')[0]}p FILE | cut -c{MAX_LINE_CHARS + 1}-]"
        )
    if last < len(lines):
        why = "2,000 lines or 50 KB a call"
        if page < MAX_BYTES:
            why = f"{page:,} bytes, its share of this reply"
        why = f" ({why})" if len(texts) < limit or limit > MAX_LINES else ""
        notes.append(f"[Lines {offset}-{last} of {len(lines):,}{why}. To go on: offset={last + 1}]")
    elif offset > 1:
        notes.append(f"[Lines {offset}-{last} of {len(lines):,}.]")
    return FileView("\n".join(texts), plural(len(texts), "line"), tuple(notes))


async def _read_pages(
    name: str, data: bytes, offset: int, limit: int, *, as_pictures: bool, room: int
) -> FileView:
    """Pages of a PDF, from `offset` on (from 1); texts of at most about `room` characters. Raises:
    ToolError, also where the PDF takes too long, and without the extra that reads PDFs."""
    if len(data) > MAX_READ_BYTES:
        raise ToolError(f"{name} is too large: split it by a shell command such as `qpdf`.")
    require_extra("documents", ToolError)
    count = min(limit, MAX_PICTURES) if as_pictures else limit
    head = json.dumps({"first": offset, "count": count, "pictures": as_pictures, "room": room})
    try:
        async with asyncio.timeout(PDF_S):
            answer = await ask_worker(pdf_worker.__file__, head.encode() + b"\n" + data)
    except TimeoutError:
        raise ToolError(
            f"{name} took longer than {PDF_S:.0f} s: give a smaller `limit` of pages."
        ) from None
    document: dict[str, Any] = json.loads(answer) if answer else {"fault": "damaged"}
    if fault := document.get("fault"):
        what = "is behind a password" if fault == "password" else "is damaged or too complex"
        raise ToolError(
            f"{name} {what}, so its pages cannot be read: ask the person for a copy without that."
        )
    views = []
    for number, page in enumerate(document["pages"], start=offset):
        if as_pictures:
            views.append(FileView(pictures=(Picture(f"page {number}", base64.b64decode(page)),)))
        else:
            text = page or '(no text: show="pictures" shows how it looks)'
            views.append(FileView(f"Page {number}:\n{text}"))
    return _join_views(name, "page", views, offset, document["total"], room)


def _read_cells(name: str, text: str, offset: int, limit: int, *, room: int) -> FileView | None:
    """Cells of a notebook with their outputs, from `offset` on (from 1), of at most about `room`
    characters; None for a text that is no notebook. Raises: ToolError for an offset beyond its end.
    """
    notebook: Any = None
    with suppress(ValueError, RecursionError):
        notebook = json.loads(text)
    cells = notebook.get("cells") if _is_object(notebook) else None
    if not cells or not isinstance(cells, list) or not all(map(_is_object, cells)):
        return None
    part = enumerate(cells[offset - 1 : offset - 1 + limit], start=offset)
    views = [_show_cell(number, cell) for number, cell in part]
    view = _join_views(name, "cell", views, offset, len(cells), room)
    hint = (
        '[Before an edit, read the file\'s own lines, which are JSON: show="raw". Search it for '
        "their numbers.]"
    )
    return view._replace(text=f"{view.text}\n{hint}")


def _join_views(
    name: str, noun: str, views: Sequence[FileView], offset: int, total: int, room: int
) -> FileView:
    """Joins the pages or cells that `room` holds, at least the beginning of the first, and a note
    on what follows. Raises: ToolError for an offset beyond the end."""
    if not views:
        raise _beyond_end_error(name, noun, offset, total)
    texts: list[str] = []
    pictures: list[Picture] = []
    for view in views:
        text, excess = view.text, len(view.text) - room
        if texts and excess > 0:
            break
        texts.append(f"{text[:room]}\n[{excess:,} more characters]" if excess > 0 else text)
        pictures += view.pictures
        room -= len(text)
    last = offset + len(texts) - 1
    more = f" To go on: offset={last + 1}" if last < total else ""
    note = f"[{noun.capitalize()}s {offset}-{last} of {total:,}.{more}]"
    if len(pictures) > MAX_PICTURES:
        note += f"\n[Only the first {MAX_PICTURES} of {len(pictures)} pictures follow.]"
    body = "\n\n".join([*filter(None, texts), note])
    return FileView(body, plural(len(texts), noun), pictures=tuple(pictures[:MAX_PICTURES]))


def _beyond_end_error(name: str, noun: str, offset: int, total: int) -> ToolError:
    return ToolError(f"{name} has {plural(total, noun)}: `offset` {offset} is beyond its end.")


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _show_cell(number: int, cell: dict[str, Any]) -> FileView:
    pictures: list[Picture] = []
    lines = [f"Cell {number}, {cell.get('cell_type')}:", _join(cell.get("source"))]
    attachments, outputs = cell.get("attachments"), cell.get("outputs")
    for bundle in attachments.values() if _is_object(attachments) else ():
        lines += _describe_bundle(number, bundle, pictures)
    for output in filter(_is_object, outputs if isinstance(outputs, list) else ()):
        error = f"{output.get('ename')}: {output.get('evalue')}" if "ename" in output else ""
        text = _join(output.get("text")) or _join(output.get("traceback"), "\n") or error
        lines += ["Output:", *filter(None, [_clip_cell(text)])]
        lines += _describe_bundle(number, output.get("data"), pictures)
    return FileView("\n".join(lines), pictures=tuple(pictures))


def _describe_bundle(number: int, data: Any, pictures: list[Picture]) -> Iterator[str]:
    """Yields the lines for something in several media types: its plainest text, and a note on its
    picture, which is added to `pictures`."""
    kinds = sorted(data, key=lambda kind: kind != "text/plain") if _is_object(data) else []
    if text := next((kind for kind in kinds if kind.startswith("text/")), ""):
        yield _clip_cell(_join(data[text]))
    if kind := next((kind for kind in kinds if kind in _IMAGES), ""):
        name = f"picture of cell {number}"
        try:
            picture = base64.b64decode(_join(data[kind]))
        except ValueError:
            yield f"[{name} is damaged]"
        else:
            pictures.append(Picture(name, picture))
            yield f"[{name}, {len(picture):,} bytes]"
    elif kinds and not text:
        yield f"[{', '.join(kinds)}]"


def _join(text: Any, between: str = "") -> str:
    """A text of a notebook, which is one string or a list of them."""
    if isinstance(text, list):
        text = between.join(map(str, text))
    return _ANSI.sub("", text) if isinstance(text, str) else ""


def _clip_cell(text: str) -> str:
    text, half = text.rstrip("\n"), MAX_OUTPUT_CHARS // 2
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"
