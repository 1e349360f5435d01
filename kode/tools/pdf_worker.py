"""Pages of a PDF, as text or as pictures.

The parser is a large C++ library that reads hostile input. So this file runs as a program of its
own, with limits: on stdin a line `{"first", "count", "pictures", "room"}`, then
the bytes of the PDF; on stdout `{"total", "pages"}`, where a page is its text, or its picture in
base64; or `{"fault": "password" | "damaged"}`.
"""

import base64
import io
import json
import sys
from typing import Any

MAX_PAGE_CHARS = 1_000_000  # many times a page of print
SIDE = 1_600
"""Pixels of the longer side of a page's picture: models look at no more than that."""
MAX_PNG_BYTES = 1_000_000
"""A larger picture, of a scan or a photo, becomes a JPEG."""


def read_pages(data: bytes, first: int, count: int, pictures: bool, room: int) -> dict[str, Any]:
    """Up to `count` pages from `first` on (from 1), "" for a damaged one; texts end once they
    exceed `room` characters together."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        is_locked = error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD
        return {"fault": "password" if is_locked else "damaged"}
    pages: list[str] = []
    for number in range(first - 1, min(first - 1 + count, len(document))):
        try:
            page = document[number]
            if pictures:
                file = io.BytesIO()
                picture = page.render(scale=SIDE / max(*page.get_size(), 1)).to_pil()
                picture.save(file, "PNG")
                if file.tell() > MAX_PNG_BYTES:
                    file = io.BytesIO()
                    picture.convert("RGB").save(file, "JPEG", quality=85)
                pages.append(base64.b64encode(file.getvalue()).decode("ascii"))
            else:
                text = page.get_textpage().get_text_bounded()[:MAX_PAGE_CHARS].replace("\r", "")
                pages.append("\n".join(map(str.rstrip, text.split("\n"))).strip())
            page.close()
        except pypdfium2.PdfiumError:
            pages.append("")
        if not pictures and (room := room - len(pages[-1])) < 0:
            break
    return {"total": len(document), "pages": pages}


if __name__ == "__main__":
    options = json.loads(sys.stdin.buffer.readline())
    json.dump(read_pages(sys.stdin.buffer.read(), **options), sys.stdout)
