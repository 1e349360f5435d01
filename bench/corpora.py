"""The labelled sets in `bench/data/`, and their rows. Not here: what a row means, which each
benchmark knows of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"


def rows(data: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines. Of a folder: of its files `NAME*.jsonl`, in order.

    Raises: SystemExit, having said so, when there are none.
    """
    files = sorted(data.glob(f"{name}*.jsonl")) if data.is_dir() else [data]
    try:
        texts = [file.read_text(encoding="utf-8", errors="surrogatepass") for file in files]
    except OSError as error:
        print(f"No data: {data} ({error.strerror}). Give --data PATH.", file=sys.stderr)
        raise SystemExit(1) from None
    # By newlines alone: a row may hold other line separators.
    items = [json.loads(line) for text in texts for line in text.split("\n") if line.strip()]
    if not items:
        print(f"No rows in {data}. Give --data PATH.", file=sys.stderr)
        raise SystemExit(1)
    return items
