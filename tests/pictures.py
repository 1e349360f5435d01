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


def jpeg(width: int = 4, height: int = 3) -> bytes:
    application = b"\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\3" + b"\0" * 9
    return b"\xff\xd8" + application + frame + b"\xff\xd9"


def pdf(*pages: str, locked: bool = False) -> bytes:
    """A PDF with one line of text on each page (none for ""); `locked` behind a password."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /MediaBox [0 0 300 150] /Kids "
        f"[{' '.join(f'{4 + 2 * at} 0 R' for at in range(len(pages)))}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        drawn = f"BT /F 12 Tf 20 100 Td ({text}) Tj ET" if text else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /Contents {5 + 2 * at} 0 R "
            "/Resources << /Font << /F 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    data, starts = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, start=1):
        starts.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{start:010} 00000 n \n" for start in starts)
    secret = f"<{'00' * 32}>"
    lock = f"/Encrypt << /Filter /Standard /V 1 /R 2 /O {secret} /U {secret} /P -4 >>"
    lock += f" /ID [{secret} {secret}]"
    return (
        data
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer << /Size {len(objects) + 1} /Root 1 0 R {lock if locked else ''} >>\n"
            f"startxref\n{len(data)}\n%%EOF\n"
        ).encode()
    )
