"""Results as figures: shares with their intervals, medians, per agent and per kind of task."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.results import share, wilson_interval
from kode.messages import align_columns

Row = Mapping[str, Any]


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Of one agent: how many tasks it solved, with what, and what else it did."""
    worked = [row["worked"] for row in rows]
    undone = [row["undone"] for row in rows if row["undone"] is not None]
    return {
        "tasks": len(rows),
        "solved": sum(row["solved"] for row in rows),
        "interval": [
            round(bound, 3) for bound in wilson_interval(sum(r["solved"] for r in rows), len(rows))
        ],
        "requests": _median(worked, "steps"),
        "input_tokens": _median(worked, "input_tokens"),
        "cached_tokens": _median(worked, "cached_tokens"),
        "output_tokens": _median(worked, "output_tokens"),
        "seconds": _median(worked, "seconds"),
        "wire_bytes": _median(rows, "wire_bytes"),
        "damaged": sum(bool(row["damaged"]) for row in rows),
        "left": sum(bool(row["left"]) for row in rows),
        "refused": sum(each["refused"] for each in worked),
        "undone": f"{sum(undone)}/{len(undone)}" if undone else None,
        "ended": dict(sorted(_counts(worked, lambda each: each["status"]).items())),
        "kinds": {
            kind: [sum(row["solved"] for row in of_kind), len(of_kind)]
            for kind in sorted({row["kind"] for row in rows})
            if (of_kind := [row for row in rows if row["kind"] == kind])
        },
    }


def table(by_agent: Mapping[str, Mapping[str, Any]]) -> str:
    """The figures of all agents side by side."""
    names = list(by_agent)
    lines = [["", *names]]
    some = next(iter(by_agent.values()), {})
    for key in some:
        if key in ("interval", "kinds", "tasks", "ended"):
            continue
        if key == "solved":
            lines.append(["solved", *(share(a["solved"], a["tasks"]) for a in by_agent.values())])
        elif any(agent[key] is not None for agent in by_agent.values()):
            shown = (agent[key] for agent in by_agent.values())
            lines.append([key, *("-" if value is None else str(value) for value in shown)])
    for kind in sorted({kind for agent in by_agent.values() for kind in agent["kinds"]}):
        each = (agent["kinds"].get(kind, [0, 0]) for agent in by_agent.values())
        lines.append([f"  {kind}", *(share(*counts) for counts in each)])
    ended = (", ".join(f"{k} {n}" for k, n in a["ended"].items()) for a in by_agent.values())
    lines.append(["ended", *ended])
    return "\n".join(align_columns(lines))


def _median(rows: Sequence[Row], key: str) -> float | None:
    values = [row[key] for row in rows if row.get(key) is not None]
    return round(statistics.median(values), 1) if values else None


def _counts(rows: Sequence[Row], of: Callable[[Row], str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[of(row)] = found.get(of(row), 0) + 1
    return found
