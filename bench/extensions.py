"""What configured MCP servers cost: `python -m bench.extensions [--json]`.

first_turn_ratio      `kode run` with three servers that ran before, to the same without any
calling_ratio         likewise, where the turn calls a tool of one of them
prefix_identical      share of a session's requests from the second on that begin with all the
                      request before said, byte for byte
"""

import itertools
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.measure import KODE, median_baseline, median_ratio, paired, report, run_ms, workplace
from bench.turns import continues
from tests.scripted_server import ScriptedServer

SERVER = Path(__file__).parents[1] / "tests" / "extensions" / "servers" / "plain.py"
NAMES = ("one", "two", "three")
FLAGS = ("--provider", "openai", "--model", "gpt-4o", "--no-memory", "--allow", "mcp")
CALL: dict[str, Any] = {"calls": [{"name": "mcp__one__add", "arguments": {"a": 1, "b": 2}}]}


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""

    def model(request: dict[str, Any]) -> dict[str, Any]:
        called = "call it" in str(request["messages"][-1].get("content"))
        return CALL if called else {"text": "Hello."}

    with ScriptedServer(model) as server, workplace(server.openai_url) as (project, environ):
        served = {**environ, "KODE_HOME": str(project.parent / "served")}
        for name in NAMES:
            _kode(["mcp", "add", name, "--", sys.executable, str(SERVER)], served, project)
            _kode(["mcp", "approve", name, "--yes"], served, project)
        first = paired(
            lambda: run_ms([KODE, "run", "hello", *FLAGS], environ, project),
            lambda: run_ms([KODE, "run", "hello", *FLAGS], served, project),
        )
        calling = paired(
            lambda: run_ms([KODE, "run", "hello", *FLAGS], environ, project),
            lambda: run_ms([KODE, "run", "call it", *FLAGS], served, project),
            runs=3,
        )
        before = len(server.requests)
        _kode(["run", "hello", *FLAGS], served, project)
        for text in ("call it", "hello again"):
            _kode(["continue", text, *FLAGS], served, project)
        asked = list(server.requests)[before:]
    pairs = list(itertools.pairwise(asked))
    figures = {
        "first_turn_ratio": median_ratio(first),
        "calling_ratio": median_ratio(calling),
        "prefix_identical": round(sum(continues(*pair) for pair in pairs) / len(pairs), 4),
        "baseline_run_ms": median_baseline(first),
    }
    report("extensions", figures, argv)
    return 0


def _kode(words: Sequence[str], environ: Mapping[str, str], project: Path) -> None:
    subprocess.run([KODE, *words], env=dict(environ), cwd=project, check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
