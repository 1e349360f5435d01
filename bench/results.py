"""Results kept line by line, so that a run that was cut off continues; shares with intervals."""

import json
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

from kode.durable import append_lines

Z = 1.959964
"""Of a normal distribution, for 95%."""


def read_results(path: Path | None) -> dict[str, dict[str, Any]]:
    """The results of an earlier run by their `key`; a line that was cut off does not count."""
    rows: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path and path.is_file() else ():
        try:
            row = json.loads(line)
            rows[row["key"]] = row
        except (ValueError, KeyError, TypeError):
            continue
    return rows


def append_result(row: Mapping[str, Any], path: Path | None) -> dict[str, Any]:
    """Appends a result, on disk when this returns; the row as it will be read again."""
    line = json.dumps(row)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        append_lines(path, [line.encode()])
    loaded: dict[str, Any] = json.loads(line)
    return loaded


def wilson_interval(hits: int, number: int) -> tuple[float, float]:
    """The 95% interval of a share, by Wilson; of no trial at all it is everything."""
    if number == 0:
        return 0.0, 1.0
    share, spread = hits / number, Z * Z / number
    middle = share + spread / 2
    half = Z * sqrt(share * (1 - share) / number + spread / (4 * number))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def share(hits: int, number: int) -> str:
    """`7/10 (40-89%)`."""
    low, high = wilson_interval(hits, number)
    return f"{hits}/{number} ({low * 100:.0f}-{high * 100:.0f}%)"
