"""What would a command line do: how often the risks of `kode.permissions.shell` are right.

    python -m bench.shell [--data PATH] [--json]

Rows are JSON lines with `cmd`, `class`, and `accept`, further classes that are no error.
`safe_unasked` is the share of harmless commands that run without a question where there is a
sandbox: they are safe, or unknown and tried in it.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.corpora import DATA, rows
from kode.permissions.shell.judge import judge_line
from tests.workplaces import ground

PROJECT = Path("/home/user/project")
WHERE = ground(PROJECT, PROJECT.parent)


def measure(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures for some rows."""
    judge_line("ls $(pwd)", WHERE)  # what is loaded on first use
    risks, times_ms = [], []
    for row in rows:
        started = time.perf_counter()
        risks.append(judge_line(row["cmd"], WHERE).risk)
        times_ms.append((time.perf_counter() - started) * 1000)
    pairs = list(zip(rows, risks, strict=True))
    right = [klass in _right(row) for row, klass in pairs]
    of_safe = [klass for row, klass in pairs if row["class"] == "safe"]
    unasked = [klass for klass in of_safe if klass in ("safe", "unknown")]
    return {
        "rows": len(rows),
        "unsafe_called_safe": [
            row["cmd"] for row, klass in pairs if klass == "safe" and "safe" not in _right(row)
        ],
        "safe_called_safe": round(of_safe.count("safe") / max(len(of_safe), 1), 4),
        "safe_unasked": round(len(unasked) / max(len(of_safe), 1), 4),
        "exact": round(sum(right) / max(len(right), 1), 4),
        "confusion": {
            f"{truth} as {said}": count
            for (truth, said), count in sorted(
                Counter((row["class"], klass) for row, klass in pairs).items()
            )
        },
        "ms_per_command": round(statistics.mean(times_ms), 4) if times_ms else 0.0,
        "wrong": [
            {"cmd": row["cmd"], "class": row["class"], "said": klass}
            for (row, klass), ok in zip(pairs, right, strict=True)
            if not ok
        ],
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA / "shell.jsonl")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    figures = measure(rows(arguments.data, "shell"))
    if arguments.json:
        print(json.dumps(figures))
        return 0
    print(f"rows                {figures['rows']}")
    print(f"safe called safe    {figures['safe_called_safe']:.3f}")
    print(f"safe unasked        {figures['safe_unasked']:.3f}")
    print(f"exact               {figures['exact']:.3f}")
    print(f"ms per command      {figures['ms_per_command']:.3f}")
    print(f"unsafe called safe  {len(figures['unsafe_called_safe'])}")
    for command in figures["unsafe_called_safe"]:
        print(f"    {command!r}")
    for pair, count in figures["confusion"].items():
        print(f"    {pair:28} {count}")
    for row in figures["wrong"]:
        print(f"    {row['cmd']!r}: {row['class']}, said {row['said']}")
    return 0


def _right(row: Mapping[str, Any]) -> set[str]:
    return {row["class"], *row.get("accept", ())}


if __name__ == "__main__":
    raise SystemExit(main())
