"""Images and PDFs of a message: their kind, a size that servers take, and kode's own copy beside
the session, named by its content. Pillow, imported only then, shrinks what is too large.
"""

import hashlib
import io
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable
from kode.errors import UserError
from kode.messages import Image
from kode.values import asdict, dataclass, replace

if TYPE_CHECKING:
    import PIL.Image

MAX_BYTES = 3_900_000
"""In bytes; every server accepts it: the lowest limit is 5 MiB encoded, which adds a third."""
MAX_SIDE = 8000
"""In pixels; servers refuse larger pictures."""
LARGE_SIDE = 2000
"""In pixels; Anthropic refuses a larger picture beside twenty others."""
MAX_READ_BYTES = 50_000_000  # a photograph in full size
MAX_PIXELS = 200_000_000
"""Larger pictures are not opened: each pixel takes four bytes."""
SIDE = 1568
"""Pixels of the longer side after shrinking: Claude looks at no more than that."""
JPEG_QUALITY = 85  # text in a screenshot stays legible
PDF = "application/pdf"
SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    PDF: ".pdf",
}
NAMED_SO = (*SUFFIXES.values(), ".jpeg")
"""File name suffixes of what a model can look at."""


@dataclass(frozen=True)
class Picture:
    """A picture to send with a message."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Looks:
    """What the first bytes of a picture show."""

    media_type: str
    width: int
    height: int
    """0 if the file does not say."""


def read_header(data: bytes) -> Looks | None:
    """The kind and size of a picture; None for bytes that are not a supported picture."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return Looks("image/png", *_unpack_pair(">II", data, 16))
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return Looks("image/gif", *_unpack_pair("<HH", data, 6))
    if data.startswith(b"\xff\xd8\xff"):
        return Looks("image/jpeg", *_jpeg_size(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return Looks("image/webp", *_webp_size(data))
    if data.startswith(b"%PDF-"):
        return Looks(PDF, 0, 0)
    return None


def read_picture(path: Path) -> Picture | None:
    """Reads a picture, an oversized one too; None if the file is missing or no picture."""
    if not (path.name.lower().endswith(NAMED_SO) and path.is_file()):  # a pipe would never end
        return None
    try:
        with path.open("rb") as file:
            data = file.read(MAX_READ_BYTES + 1)
    except (OSError, ValueError):
        return None
    return Picture(path.name, data) if read_header(data) is not None else None


def check_picture(picture: Picture) -> Looks:
    """The kind and size of a picture, without decoding it. Raises: UserError if it is no picture,
    or too large even to be shrunk."""
    looks = read_header(picture.data)
    if looks is None:
        raise UserError(
            f"{picture.name} is not an image a model can see. Convert it to PNG, JPEG, GIF or WebP."
        )
    if looks.width * looks.height > MAX_PIXELS or len(picture.data) > MAX_READ_BYTES:
        raise _too_large_error(picture, looks)
    return looks


def fit_picture(picture: Picture) -> Picture:
    """The picture in a size that every server accepts, also beside many others where Pillow is
    there. Shrinking a large one takes about a second, so call it in a thread.

    Raises: UserError if it is not a picture, or cannot be shrunk, as without Pillow.
    """
    from kode.installed import has_extra, require_extra  # not at every start

    looks = check_picture(picture)
    is_large = max(looks.width, looks.height) > LARGE_SIDE and has_extra("pictures")
    if _is_accepted(picture, looks) and not is_large:
        return picture
    require_extra("pictures", UserError)
    try:
        return Picture(picture.name, _shrink_picture(picture.data))
    except Exception as error:  # decoders fail in many ways on damaged files
        raise UserError(
            f"{picture.name} is too large for a server and could not be made smaller: {error}. "
            "Re-save it or crop it."
        ) from error


def save_picture(folder: Path, name: str, data: bytes) -> Image:
    """Saves a copy in `folder` (created 0700) and returns the message part for it.

    Raises: UserError if it is not a picture or too large for a server; StorageError.
    """
    from kode.credentials import redact  # not at every start

    looks = check_picture(picture := Picture(name, data))
    if not _is_accepted(picture, looks):
        raise _too_large_error(picture, looks)
    path = folder / f"{_digest(data)}{SUFFIXES[looks.media_type]}"
    _save_copy(path, data)
    return Image(name=redact(name), **asdict(looks), size_bytes=len(data), kept_in=str(path))


def read_image(image: Image) -> bytes | None:
    """The bytes of a picture; None if kode's copy is gone or has changed."""
    try:
        data = Path(image.kept_in).read_bytes()
    except (OSError, ValueError):
        return None
    looks = read_header(data)
    is_same = looks is not None and looks.media_type == image.media_type
    return data if is_same and _digest(data) == Path(image.kept_in).stem else None


def with_copy_in(image: Image, folder: Path) -> Image:
    """The image, with the path of its copy in `folder` if there is one: for a moved session."""
    beside = folder / os.path.basename(image.kept_in)
    return replace(image, kept_in=str(beside)) if beside.exists() else image


def copy_image(image: Image, folder: Path) -> None:
    """Copies a picture to another folder; a missing one is skipped. Raises: StorageError."""
    if (data := read_image(image)) is not None:
        _save_copy(folder / os.path.basename(image.kept_in), data)


def _save_copy(path: Path, data: bytes) -> None:
    durable.make_folder(path.parent)
    if not path.exists() or path.read_bytes() != data:
        durable.replace_file(path, data)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _is_accepted(picture: Picture, looks: Looks) -> bool:
    return max(looks.width, looks.height) <= MAX_SIDE and len(picture.data) <= MAX_BYTES


def _too_large_error(picture: Picture, looks: Looks) -> UserError:
    pixels = f"{looks.width}×{looks.height} pixels, " if looks.width else ""
    return UserError(
        f"{picture.name} is too large, {pixels}{len(picture.data) / 1e6:.1f} MB: servers take "
        f"{MAX_SIDE} pixels a side and {MAX_BYTES / 1e6:.1f} MB. Make it smaller, or cut out the "
        "part that matters."
    )


def _unpack_pair(form: str, data: bytes, position: int) -> tuple[int, int]:
    """Two numbers of a picture's header; zeros if the data ends before them."""
    if position + struct.calcsize(form) > len(data):
        return 0, 0
    first, second = struct.unpack_from(form, data, position)
    return first, second


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Reads the first frame header, skipping the segments before it."""
    position = 2
    while position + 9 < len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _unpack_pair(">HH", data, position + 5)
            return width, height
        is_filled = marker == 0xFF
        position += 1 if is_filled else 2 + _unpack_pair(">HH", data, position + 2)[0]
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = _unpack_pair("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    bits = int.from_bytes(data[24:30] if kind == b"VP8X" else data[21:25], "little")
    if kind == b"VP8X" and len(data) >= 30:
        return (bits & 0xFFFFFF) + 1, (bits >> 24) + 1
    is_lossless = kind == b"VP8L" and len(data) >= 25
    return ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1) if is_lossless else (0, 0)


def _shrink_picture(data: bytes) -> bytes:
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
    if lossless and len(as_png := _encode_picture(picture, "PNG")) <= MAX_BYTES:
        return as_png
    if picture.mode == "RGBA":
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture).convert("RGB")
    return _encode_picture(picture, "JPEG")


def _encode_picture(picture: "PIL.Image.Image", form: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **({"quality": JPEG_QUALITY} if form == "JPEG" else {}))
    return file.getvalue()
