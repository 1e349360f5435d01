"""Files that are read by page or by cell: PDFs and notebooks. Part of `read_file`."""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a model gets of a document."""

    text: str
    count: int
    """Pages or cells."""
    pictures: tuple[Picture, ...] = ()


async def pages(
    name: str, data: bytes, offset: int, limit: int, *, as_pictures: bool, room: int
) -> Shown:
    """Pages of a PDF, from `offset` on (from 1); texts of at most about `room` characters.

    Raises: ToolError for a PDF that is too large, locked or damaged, or takes too long, an offset
        beyond its end, and without the extra that reads PDFs.
    """
    if len(data) > MAX_READ_BYTES:
        raise ToolError(f"{name} is too large: split it by a shell command such as `qpdf`.")
    extras.require("documents", ToolError)
    count = min(limit, MAX_PICTURES) if as_pictures else limit
    asked = {"first": offset, "count": count, "pictures": as_pictures, "room": room}
    try:
        async with asyncio.timeout(PDF_S):
            question = json.dumps(asked).encode() + b"\n" + data
            answer = await file_search.ask(pdf_worker.__file__, question)
    except TimeoutError:
        raise ToolError(
            f"{name} took longer than {PDF_S:.0f} s: give a smaller `limit` of pages."
        ) from None
    found: dict[str, Any] = json.loads(answer) if answer else {"fault": "damaged"}
    if fault := found.get("fault"):
        what = "is behind a password" if fault == "password" else "is damaged or too complex"
        raise ToolError(
            f"{name} {what}, so its pages cannot be read: ask the person for a copy without that."
        )
    total, got = found["total"], found["pages"]
    if not got:
        raise _beyond(name, offset, total, "page")
    numbered = list(enumerate(got, start=offset))
    if as_pictures:
        shown = tuple(
            Picture(f"page {number}", base64.b64decode(page)) for number, page in numbered
        )
        note = _rest(offset, len(shown), total, "page")
        return Shown(text=f"{name} as pictures. {note}", count=len(shown), pictures=shown)
    texts = [f"Page {number}:\n{page or '(no text)'}" for number, page in numbered]
    kept = _fitting(texts, room)
    empty = [str(number) for number, page in numbered[: len(kept)] if not page]
    notes = [_rest(offset, len(kept), total, "page")]
    if empty:
        notes.append(
            f'[Without text: page {", ".join(empty)}. show="pictures" shows how it looks.]'
        )
    return Shown(text="\n\n".join([*kept, "\n".join(notes)]), count=len(kept))


def cells(name: str, text: str, offset: int, limit: int, *, room: int) -> Shown | None:
    """Cells of a notebook with their outputs, from `offset` on (from 1), of at most about `room`
    characters; None for a text that is no notebook. Raises: ToolError for an offset beyond its end.
    """
    found = _cells_of(text)
    if found is None:
        return None
    if offset > len(found) and (found or offset > 1):
        raise _beyond(name, offset, len(found), "cell")
    texts: list[str] = []
    pictures: list[list[Picture]] = []
    for number, cell in enumerate(found[offset - 1 : offset - 1 + limit], start=offset):
        seen: list[Picture] = []
        texts.append("\n".join(_told(number, cell, seen)))
        pictures.append(seen)
    kept = _fitting(texts, room)
    shown = [picture for seen in pictures[: len(kept)] for picture in seen]
    notes = [_rest(offset, len(kept), len(found), "cell")]
    if len(shown) > MAX_PICTURES:
        notes.append(f"[Only the first {MAX_PICTURES} of {len(shown)} pictures follow.]")
    notes.append(
        '[Before an edit, read the file\'s own lines, which are JSON: show="raw". `search_files` '
        "finds their numbers.]"
    )
    return Shown(
        text="\n\n".join([*kept, "\n".join(notes)]),
        count=len(kept),
        pictures=tuple(shown[:MAX_PICTURES]),
    )


def _beyond(name: str, offset: int, total: int, noun: str) -> ToolError:
    return ToolError(f"{name} has {plural(total, noun)}: `offset` {offset} is beyond its end.")


def _fitting(texts: Sequence[str], room: int) -> list[str]:
    """As many texts as fit; of the first one, at least its beginning."""
    kept: list[str] = []
    for text in texts:
        if kept and len(text) > room:
            break
        more = len(text) - room
        kept.append(f"{text[:room]}\n[{more:,} more characters]" if more > 0 else text)
        room -= len(text)
    return kept


def _rest(offset: int, count: int, total: int, noun: str) -> str:
    last = offset + count - 1
    said = f"{noun.capitalize()}s {offset}-{last} of {total:,}."
    return f"[{said} To go on: offset={last + 1}]" if last < total else f"[{said}]"


def _cells_of(text: str) -> list[Any] | None:
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = notebook.get("cells") if isinstance(notebook, dict) else None
    return found if isinstance(found, list) and all(map(_is_object, found)) else None


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _told(number: int, cell: dict[str, Any], pictures: list[Picture]) -> Iterator[str]:
    """The lines of a cell; its pictures are added to `pictures`."""
    yield f"Cell {number}, {cell.get('cell_type')}:"
    yield _joined(cell.get("source"))
    attached = cell.get("attachments")
    for bundle in attached.values() if _is_object(attached) else ():
        yield from _bundle(number, bundle, pictures)
    outputs = cell.get("outputs")
    for output in filter(_is_object, outputs if isinstance(outputs, list) else ()):
        yield "Output:"
        if output.get("output_type") == "error":
            yield _clipped(
                _joined(output.get("traceback"), "\n")
                or f"{output.get('ename')}: {output.get('evalue')}"
            )
        elif "text" in output:
            yield _clipped(_joined(output["text"]))
        else:
            yield from _bundle(number, output.get("data"), pictures)


def _bundle(number: int, data: Any, pictures: list[Picture]) -> Iterator[str]:
    """One thing in several media types: its picture and its plainest text."""
    if not _is_object(data):
        return
    texts = sorted(kind for kind in data if kind.startswith("text/"))
    if texts:
        yield _clipped(_joined(data["text/plain" if "text/plain" in texts else texts[0]]))
    for kind in _IMAGES:
        if kind not in data:
            continue
        name = f"picture of cell {number}"
        try:
            picture = base64.b64decode(_joined(data[kind]))
        except (ValueError, binascii.Error):
            yield f"[{name} is damaged]"
            continue
        pictures.append(Picture(name, picture))
        yield f"[{name}, {len(picture):,} bytes]"
        return
    if others := [kind for kind in data if kind not in texts]:
        yield f"[{', '.join(others)}]"


def _joined(said: Any, between: str = "") -> str:
    """A text of a notebook, which is one string or a list of them."""
    if isinstance(said, list):
        said = between.join(map(str, said))
    return _ANSI.sub("", said) if isinstance(said, str) else ""


def _clipped(text: str) -> str:
    text, half = text.rstrip("\n"), MAX_OUTPUT_CHARS // 2
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"
