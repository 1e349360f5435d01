"""Files that are read by page or by cell: PDFs and notebooks. Part of `read_file`."""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

from kode import extras
from kode.errors import ToolError
from kode.images import MAX_READ_BYTES, Picture
from kode.messages import plural
from kode.tools import file_search, pdf_worker

PDF_S = 60.0  # a long book on a slow machine
MAX_PICTURES = 10
"""Of one call: a model pays about 1,600 tokens for each."""
MAX_OUTPUT_CHARS = 4_000
"""Of one output of a cell; of a longer one both ends are shown."""

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class View(NamedTuple):
    """What a model gets of a file."""

    text: str
    summary: str
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()


async def read_pages(
    name: str, data: bytes, offset: int, limit: int, *, as_pictures: bool, room: int
) -> View:
    """Pages of a PDF, from `offset` on (from 1); texts of at most about `room` characters.

    Raises: ToolError for a PDF that is too large, locked or damaged, or takes too long, an offset
        beyond its end, and without the extra that reads PDFs.
    """
    if len(data) > MAX_READ_BYTES:
        raise ToolError(f"{name} is too large: split it by a shell command such as `qpdf`.")
    extras.require("documents", ToolError)
    count = min(limit, MAX_PICTURES) if as_pictures else limit
    head = json.dumps({"first": offset, "count": count, "pictures": as_pictures, "room": room})
    try:
        async with asyncio.timeout(PDF_S):
            answer = await file_search.ask(pdf_worker.__file__, head.encode() + b"\n" + data)
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
    total, numbered = document["total"], list(enumerate(document["pages"], start=offset))
    if not numbered:
        raise _beyond(name, offset, total, "page")
    if as_pictures:
        note, summary = _describe_rest(offset, len(numbered), total, "page")
        pictures = tuple(Picture(f"page {n}", base64.b64decode(page)) for n, page in numbered)
        return View(f"{name} as pictures. {note}", summary, pictures=pictures)
    texts = _fit([f"Page {number}:\n{page or '(no text)'}" for number, page in numbered], room)
    note, summary = _describe_rest(offset, len(texts), total, "page")
    if empty := [str(number) for number, page in numbered[: len(texts)] if not page]:
        note += f'\n[Without text: page {", ".join(empty)}. show="pictures" shows how it looks.]'
    return View("\n\n".join([*texts, note]), summary)


def read_cells(name: str, text: str, offset: int, limit: int, *, room: int) -> View | None:
    """Cells of a notebook with their outputs, from `offset` on (from 1), of at most about `room`
    characters; None for a text that is no notebook. Raises: ToolError for an offset beyond its end.
    """
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return None
    all_cells = notebook.get("cells") if _is_object(notebook) else None
    if not isinstance(all_cells, list) or not all(map(_is_object, all_cells)):
        return None
    total = len(all_cells)
    if offset > max(total, 1):
        raise _beyond(name, offset, total, "cell")
    pictures: list[tuple[int, Picture]] = []
    texts = _fit(
        [
            "\n".join(_describe_cell(number, cell, pictures))
            for number, cell in enumerate(all_cells[offset - 1 : offset - 1 + limit], start=offset)
        ],
        room,
    )
    note, summary = _describe_rest(offset, len(texts), total, "cell")
    chosen = tuple(picture for number, picture in pictures if number < offset + len(texts))
    if len(chosen) > MAX_PICTURES:
        note += f"\n[Only the first {MAX_PICTURES} of {len(chosen)} pictures follow.]"
    note += (
        '\n[Before an edit, read the file\'s own lines, which are JSON: show="raw". `search_files` '
        "finds their numbers.]"
    )
    return View("\n\n".join([*texts, note]), summary, pictures=chosen[:MAX_PICTURES])


def _beyond(name: str, offset: int, total: int, noun: str) -> ToolError:
    return ToolError(f"{name} has {plural(total, noun)}: `offset` {offset} is beyond its end.")


def _fit(texts: Sequence[str], room: int) -> list[str]:
    """As many texts as fit; of the first one, at least its beginning."""
    fitting: list[str] = []
    for text in texts:
        more = len(text) - room
        if fitting and more > 0:
            break
        fitting.append(f"{text[:room]}\n[{more:,} more characters]" if more > 0 else text)
        room -= len(text)
    return fitting


def _describe_rest(offset: int, count: int, total: int, noun: str) -> tuple[str, str]:
    """A note on what follows, and a summary."""
    last = offset + count - 1
    more = f" To go on: offset={last + 1}" if last < total else ""
    note = f"[{noun.capitalize()}s {offset}-{last} of {total:,}.{more}]"
    return note, plural(count, noun)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _describe_cell(
    number: int, cell: dict[str, Any], pictures: list[tuple[int, Picture]]
) -> Iterator[str]:
    """The lines of a cell; its pictures are added to `pictures`."""
    yield f"Cell {number}, {cell.get('cell_type')}:"
    yield _join(cell.get("source"))
    attachments, outputs = cell.get("attachments"), cell.get("outputs")
    for bundle in attachments.values() if _is_object(attachments) else ():
        yield from _describe_bundle(number, bundle, pictures)
    for output in filter(_is_object, outputs if isinstance(outputs, list) else ()):
        yield "Output:"
        if output.get("output_type") == "error":
            trace = _join(output.get("traceback"), "\n")
            yield _clip(trace or f"{output.get('ename')}: {output.get('evalue')}")
        elif "text" in output:
            yield _clip(_join(output["text"]))
        else:
            yield from _describe_bundle(number, output.get("data"), pictures)


def _describe_bundle(number: int, data: Any, pictures: list[tuple[int, Picture]]) -> Iterator[str]:
    """One thing in several media types: its picture and its plainest text."""
    if not _is_object(data):
        return
    texts = sorted(kind for kind in data if kind.startswith("text/"))
    if texts:
        yield _clip(_join(data["text/plain" if "text/plain" in texts else texts[0]]))
    for kind in filter(data.__contains__, _IMAGES):
        name = f"picture of cell {number}"
        try:
            picture = base64.b64decode(_join(data[kind]))
        except (ValueError, binascii.Error):
            yield f"[{name} is damaged]"
            continue
        pictures.append((number, Picture(name, picture)))
        yield f"[{name}, {len(picture):,} bytes]"
        return
    if others := [kind for kind in data if kind not in texts]:
        yield f"[{', '.join(others)}]"


def _join(text: Any, between: str = "") -> str:
    """A text of a notebook, which is one string or a list of them."""
    if isinstance(text, list):
        text = between.join(map(str, text))
    return _ANSI.sub("", text) if isinstance(text, str) else ""


def _clip(text: str) -> str:
    text, half = text.rstrip("\n"), MAX_OUTPUT_CHARS // 2
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"
