"""Reads a picture for a message, and shrinks one that servers would refuse. `kode.images` says what
a picture is.

Pillow shrinks, imported only then. A picture that is small enough is sent byte for byte.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kode import extras
from kode.errors import UserError
from kode.images import MAX_BYTES, MAX_SIDE, NAMED_SO, check_image, looks_of

if TYPE_CHECKING:
    from PIL import Image

MAX_READ_BYTES = 50_000_000  # a photograph in full size
SIDE = 2048
"""Pixels of the longer side after shrinking: models look at no more than that."""
MAX_PIXELS = 200_000_000
"""Larger pictures are not opened: each pixel takes four bytes."""
JPEG_QUALITY = 85  # text in a screenshot stays legible


@dataclass(frozen=True)
class Picture:
    """A picture to send with a message."""

    name: str
    data: bytes


def read_picture(path: Path) -> Picture | None:
    """Reads a picture; None if the file is missing or no picture. An oversized one is returned too,
    so that the caller can report it."""
    if not path.name.lower().endswith(NAMED_SO):
        return None
    try:
        with path.open("rb") as file:
            data = file.read(MAX_READ_BYTES + 1)
    except (OSError, ValueError):
        return None
    return Picture(path.name, data) if looks_of(data) is not None else None


def fitting(picture: Picture) -> Picture:
    """The picture in a size that every server accepts. Shrinking a large one takes about a second,
    so call it in a thread.

    Raises: UserError if it is not a picture, or cannot be shrunk, as without Pillow.
    """
    check(picture)
    if not _is_too_large(picture):
        return picture
    extras.require("pictures", UserError)
    try:
        data = _shrink(picture.data)
    except Exception as error:  # decoders fail in many ways on damaged files
        raise UserError(
            f"{picture.name} is too large for a server and could not be made smaller: {error}. "
            "Re-save it or crop it."
        ) from error
    check_image(picture.name, data)
    return Picture(picture.name, data)


def check(picture: Picture) -> None:
    """Checks what takes no decoding. Raises: UserError if it is not a picture, or is too large even
    to be shrunk."""
    if not _is_too_large(picture):
        check_image(picture.name, picture.data)
        return
    width, height = _sides(picture)
    if width * height > MAX_PIXELS or len(picture.data) > MAX_READ_BYTES:
        raise UserError(
            f"{picture.name} is too large, {width}×{height} pixels. "
            "Make it smaller, or cut out the part that matters."
        )


def _is_too_large(picture: Picture) -> bool:
    return max(_sides(picture)) > MAX_SIDE or len(picture.data) > MAX_BYTES


def _sides(picture: Picture) -> tuple[int, int]:
    looks = looks_of(picture.data)
    return (looks.width, looks.height) if looks is not None else (0, 0)


def _shrink(data: bytes) -> bytes:
    """Shrinks to PNG if it was one and is small enough, else to JPEG. Keeps the first frame of an
    animation, and drops the camera's metadata (time, place)."""
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as opened:
        lossless = opened.format in ("PNG", "GIF")
        # Decodes a JPEG at about the wanted size, not in full.
        opened.draft("RGB", (SIDE, SIDE))
        upright = ImageOps.exif_transpose(opened)
        picture = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    picture.thumbnail((SIDE, SIDE))
    if lossless and len(as_png := _save(picture, "PNG")) <= MAX_BYTES:
        return as_png
    if picture.mode == "RGBA":
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture).convert("RGB")
    return _save(picture, "JPEG")


def _save(picture: "Image.Image", form: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **({"quality": JPEG_QUALITY} if form == "JPEG" else {}))
    return file.getvalue()
