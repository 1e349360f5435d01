"""Images and PDFs of a message: what their bytes are, and kode's own copy of them.

The copy lies beside the session, named by its content, so that the session can continue when the
original is gone. Providers decide how to send it; faces, where it comes from (a file, the
clipboard).
"""

import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from kode import durable
from kode.errors import UserError
from kode.messages import Image

MAX_BYTES = 3_900_000
"""Accepted by every server: the smallest limit is 5 MiB after encoding, which adds a third."""
MAX_SIDE = 8000
"""In pixels; servers refuse larger pictures."""
SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
}
NAMED_SO = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
"""File name suffixes of what a model can look at."""
PDF = "application/pdf"


@dataclass(frozen=True)
class Looks:
    """What the first bytes of a picture show."""

    media_type: str
    width: int
    height: int
    """0 if the file does not say."""


def looks_of(data: bytes) -> Looks | None:
    """The kind and size of a picture; None for bytes that are not a supported picture."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return Looks("image/png", *_two(">II", data, 16))
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return Looks("image/gif", *_two("<HH", data, 6))
    if data.startswith(b"\xff\xd8\xff"):
        return Looks("image/jpeg", *_jpeg_size(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return Looks("image/webp", *_webp_size(data))
    if data.startswith(b"%PDF-"):
        return Looks(PDF, 0, 0)
    return None


def keep(folder: Path, name: str, data: bytes) -> Image:
    """Saves a copy in `folder` (created 0700) and returns the message part for it.

    Raises: UserError if it is not a picture or too large; StorageError.
    """
    looks = check_image(name, data)
    # Imported here to keep it out of start-up.
    import hashlib

    from kode.credentials import redact

    durable.make_folder(folder)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:32]}{SUFFIXES[looks.media_type]}"
    if not path.exists() or path.read_bytes() != data:
        durable.replace(path, data)
    return Image(
        name=redact(name),
        media_type=looks.media_type,
        width=looks.width,
        height=looks.height,
        size_bytes=len(data),
        kept_in=str(path),
    )


def check_image(name: str, data: bytes) -> Looks:
    """Checks that every server accepts a picture, and returns its kind and size. Raises: UserError
    with the next step."""
    looks = looks_of(data)
    if looks is None:
        raise UserError(
            f"{name} is not an image a model can see. Convert it to PNG, JPEG, GIF or WebP."
        )
    if len(data) > MAX_BYTES:
        raise UserError(
            f"{name} is larger than {MAX_BYTES / 1e6:.1f} MB, the most that every server takes. "
            "Make it smaller, or cut out the part that matters."
        )
    if max(looks.width, looks.height) > MAX_SIDE:
        raise UserError(
            f"{name} has {looks.width}×{looks.height} pixels, and servers take {MAX_SIDE} a side. "
            "Make it smaller, or cut out the part that matters."
        )
    return looks


def bytes_of(image: Image) -> bytes | None:
    """The bytes of a picture; None if kode's copy is gone or has changed."""
    try:
        data = Path(image.kept_in).read_bytes()
    except (OSError, ValueError):
        return None
    import hashlib

    looks = looks_of(data)
    same = looks is not None and looks.media_type == image.media_type
    # Its name is its hash; a server may take a damaged picture, and the model see another one.
    named = hashlib.sha256(data).hexdigest()[:32] == Path(image.kept_in).stem
    return data if same and named and len(data) == image.size_bytes else None


def kept_beside(image: Image, folder: Path) -> Image:
    """The same picture with its copy in `folder`, where there is one, for a copied or moved
    session."""
    beside = folder / os.path.basename(image.kept_in)
    return replace(image, kept_in=str(beside)) if beside.exists() else image


def copy_to(image: Image, folder: Path) -> None:
    """Copies a picture to another folder; a missing one is skipped. Raises: StorageError."""
    data = bytes_of(image)
    if data is not None:
        durable.make_folder(folder)
        durable.replace(folder / os.path.basename(image.kept_in), data)


def _two(form: str, data: bytes, position: int) -> tuple[int, int]:
    try:
        first, second = struct.unpack_from(form, data, position)
    except struct.error:
        return 0, 0
    return first, second


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Reads the first frame header, skipping the segments before it."""
    position = 2
    while position + 9 < len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _two(">HH", data, position + 5)
            return width, height
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        width = int.from_bytes(data[24:27], "little") + 1
        return width, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = _two("<HH", data, 26) if kind == b"VP8 " else (0, 0)
    return width & 0x3FFF, height & 0x3FFF
