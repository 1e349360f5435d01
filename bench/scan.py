"""The scan of what is remembered, measured: `python -m bench.scan [--data PATH] [--json]`.

Every text of the corpus is scanned; `caught` is the share of those to refuse that were refused,
`refused_wrongly` the share of those to accept that were. Not here: the scan (`kode.memory.scan`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.corpora import DATA, rows

SAMPLE_CHARS = 2048
ROUNDS = 5


def measure(rows: list[dict[str, str]]) -> dict[str, Any]:
    """All figures; `missed` and `refused` list the texts that were judged wrongly."""
    from kode.memory.scan import find_danger

    to_refuse = [row for row in rows if row["label"] == "reject"]
    to_accept = [row for row in rows if row["label"] != "reject"]
    missed = [row for row in to_refuse if find_danger(row["text"]) is None]
    refused = [row for row in to_accept if find_danger(row["text"]) is not None]
    return {
        "caught": round(1 - len(missed) / max(1, len(to_refuse)), 4),
        "refused_wrongly": round(len(refused) / max(1, len(to_accept)), 4),
        "missed": [{"category": row.get("category"), "text": row["text"]} for row in missed],
        "refused": [{"category": row.get("category"), "text": row["text"]} for row in refused],
        "to_refuse": len(to_refuse),
        "to_accept": len(to_accept),
        "ms_per_2kb": round(_ms_per_sample(_mix_texts([row["text"] for row in to_accept])), 3),
        "ms_per_2kb_repeated": round(_ms_per_sample(_repeat_texts(to_accept)), 3),
    }


def _mix_texts(texts: list[str]) -> list[str]:
    """2 KB each, in which every line is another of the texts: the usual case, and the costly."""
    samples = []
    for start in range(len(texts)):
        lines = texts[start:] + texts[:start]
        joined = "\n".join(lines * (1 + SAMPLE_CHARS // max(1, len("\n".join(lines)))))
        samples.append(joined[:SAMPLE_CHARS].rpartition("\n")[0])
    return samples


def _repeat_texts(rows: list[dict[str, str]]) -> list[str]:
    """2 KB each, one text over and over."""
    texts = [row["text"] for row in rows if row["text"]]
    return [(f"{text}. " * SAMPLE_CHARS)[:SAMPLE_CHARS] for text in texts]


def _ms_per_sample(samples: list[str]) -> float:
    """Median time of those samples that are accepted, and so read to their end."""
    from kode.memory.scan import find_danger

    times = []
    for sample in samples or ["The tests run with pytest, the linter is ruff. " * 43]:
        for _ in range(ROUNDS):
            started = time.perf_counter()
            finding = find_danger(sample)
            if finding is None:
                times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times) if times else 0.0


def main(argv: list[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench.scan")
    parser.add_argument("--data", type=Path, default=DATA / "scan.jsonl")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    figures = measure(rows(options.data, "scan"))
    if options.json:
        print(json.dumps(figures))
        return 0
    print(f"caught           {figures['caught']:.1%} of {figures['to_refuse']}")
    print(f"refused wrongly  {figures['refused_wrongly']:.1%} of {figures['to_accept']}")
    print(f"time             {figures['ms_per_2kb']} ms for 2 KB, every line another fact")
    print(f"                 {figures['ms_per_2kb_repeated']} ms for 2 KB of one fact repeated")
    for name in ("missed", "refused"):
        for row in figures[name]:
            print(f"{name:8} {row['category']}: {row['text'][:120]!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
