"""`make bench`: every benchmark, one after the other. Each alone is `python -m bench.NAME`."""

import importlib
import sys

NAMES = (
    "startup",
    "turns",
    "first_request",
    "prefix",
    "cost_of_a_day",
    "compaction",
    "walk",
    "sessions",
    "merge",
    "updates",
    "retrieval",
    "memory_scale",
    "scan",
    "shell",
    "edits",
    "wall",
    "undo",
    "subagents",
    "fleet",
    "conversations",
    "extensions",
    "systems",
    "memory_life",
    "tasks",
)


def main() -> int:
    """Prints every table; a benchmark that needs data from elsewhere says so."""
    for name in NAMES:
        print(f"── {name} " + "─" * (76 - len(name)), flush=True)
        importlib.import_module(f"bench.{name}").main([])
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
