"""A picture on its way into a message: read from a file, and made smaller where no server would
take it as it is. What a picture is is `kode.images`.

Made smaller by Pillow, which is imported only then. One that is small enough is sent byte for byte.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kode.errors import UserError
from kode.images import MAX_BYTES, MAX_SIDE, NAMED_SO, checked, looks_of

if TYPE_CHECKING:
    from PIL import Image

MAX_READ_BYTES = 50_000_000
SIDE = 2048
"""Pixels of the longer side afterwards: models look at no more than that."""
MAX_PIXELS = 200_000_000
"""A picture of more is not opened: it takes four bytes a pixel."""
JPEG_QUALITY = 85


@dataclass(frozen=True)
class Picture:
    """A picture that will go with a message."""

    name: str
    data: bytes


def read_picture(path: Path) -> Picture | None:
    """The picture in a file; None for a file that is not there or no picture. One that is too large
    comes too, so that it can be said."""
    if not path.name.lower().endswith(NAMED_SO):
        return None
    try:
        with path.open("rb") as file:
            data = file.read(MAX_READ_BYTES + 1)
    except (OSError, ValueError):
        return None
    return Picture(path.name, data) if looks_of(data) is not None else None


def fitting(picture: Picture) -> Picture:
    """The picture as every server takes it: itself, or made smaller. Takes about a second for a
    large one, so call it in a thread.

    Raises: UserError for what is no picture, or cannot be made smaller.
    """
    check(picture)
    if not _is_too_large(picture):
        return picture
    try:
        data = _made_smaller(picture.data)
    except ImportError:
        raise UserError(
            f"{picture.name} is too large for a server, and Pillow, which makes pictures smaller, "
            "is not installed. Install it (`pip install pillow`), or make the picture smaller."
        ) from None
    except Exception as error:  # decoders fail in many ways on a damaged file
        raise UserError(
            f"{picture.name} is too large for a server and could not be made smaller: {error}. "
            "Re-save it or crop it."
        ) from error
    checked(picture.name, data)
    return Picture(picture.name, data)


def check(picture: Picture) -> None:
    """What can be told at once. Raises: UserError for what is no picture, and for one that is too
    large even to be made smaller."""
    if not _is_too_large(picture):
        checked(picture.name, picture.data)
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


def _made_smaller(data: bytes) -> bytes:
    """As PNG where it was one and that is small enough, else as JPEG. Of moving pictures the first;
    what a camera wrote down of time and place is not kept."""
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as opened:
        lossless = opened.format in ("PNG", "GIF")
        # A JPEG is decoded at no more than about the size that is wanted.
        opened.draft("RGB", (SIDE, SIDE))
        upright = ImageOps.exif_transpose(opened)
        picture = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    picture.thumbnail((SIDE, SIDE))
    if lossless and len(as_png := _saved(picture, "PNG")) <= MAX_BYTES:
        return as_png
    if picture.mode == "RGBA":
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture).convert("RGB")
    return _saved(picture, "JPEG")


def _saved(picture: "Image.Image", form: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **({"quality": JPEG_QUALITY} if form == "JPEG" else {}))
    return file.getvalue()
