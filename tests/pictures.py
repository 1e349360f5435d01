"""Small pictures for tests, made by hand: the formats that models can look at."""

import struct
import zlib


def png(width: int = 4, height: int = 3, *, more: bytes = b"") -> bytes:
    """A whole PNG of one colour; `more` goes into a text chunk, to make it larger."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x20\x60\xa0" * width) * min(height, 64)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + (chunk(b"tEXt", b"Comment\0" + more) if more else b"")
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def gif(width: int = 4, height: int = 3) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int = 4, height: int = 3) -> bytes:
    application = b"\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\3" + b"\0" * 9
    return b"\xff\xd8" + application + frame + b"\xff\xd9"


def webp(width: int = 4, height: int = 3) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + size + b"\0" * 4
