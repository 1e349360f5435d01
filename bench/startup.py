"""How fast kode is there: `python -m bench.startup [--json]`.

Ratios against `python -c pass`, `python -c "import prompt_toolkit"` and the plainest loop with the
same SDK, each the median of paired runs on this machine. For an editor and another agent: the
processor time until kode has answered, against the mere import of the SDK that serves them.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.measure import (
    KODE,
    Pair,
    answered_ms,
    median_baseline,
    median_ratio,
    paired,
    peak_rss_kb,
    processor_ms,
    report,
    run_ms,
    speak,
    workplace,
)
from tests.scripted_server import ScriptedServer

PYTHON = sys.executable
LOOP = [PYTHON, str(Path(__file__).with_name("baseline_loop.py")), "say hello"]
RESPONSES_LOOP = [PYTHON, str(Path(__file__).with_name("baseline_responses.py")), "say hello"]
RUN = [KODE, "run", "say hello", "--provider", "openai", "--model", "gpt-4o"]


ACP_SDK = [PYTHON, "-c", "import acp"]
MCP_SDK = [PYTHON, "-c", "import mcp.server.mcpserver"]


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with (
        ScriptedServer([{"text": "Hello."}], repeat_last=True) as server,
        workplace(server.openai_url) as (project, environ),
    ):
        version = paired(
            lambda: run_ms([PYTHON, "-c", "pass"], environ, project),
            lambda: run_ms([KODE, "--version"], environ, project),
            runs=15,
        )
        prompt = paired(
            lambda: run_ms([PYTHON, "-c", "import prompt_toolkit"], environ, project),
            lambda: prompt_ms(environ, project),
            runs=9,
        )
        run = paired(
            lambda: run_ms(LOOP, environ, project),
            lambda: run_ms(RUN, environ, project),
        )
        processor = paired(
            lambda: processor_ms(LOOP, environ, project),
            lambda: processor_ms(RUN, environ, project),
        )
        editor = _answers([KODE, "acp"], ACP_SDK, editor_says(project), environ, project)
        agent = _answers([KODE, "mcp", "serve"], MCP_SDK, AGENT_SAYS, environ, project)
        memory = [
            Pair(peak_rss_kb(LOOP, environ, project), peak_rss_kb(RUN, environ, project))
            for _ in range(5)
        ]
        speak(environ, "responses")
        responses = paired(
            lambda: run_ms(RESPONSES_LOOP, environ, project),
            lambda: run_ms(RUN, environ, project),
        )
    figures = {
        "version_ratio": median_ratio(version),
        "prompt_ratio": median_ratio(prompt),
        "run_ratio": median_ratio(run),
        "run_processor_ratio": median_ratio(processor),
        "responses_run_ratio": median_ratio(responses),
        "acp_initialize_processor_ratio": median_ratio(editor[0]),
        "acp_session_processor_ratio": median_ratio(editor[1]),
        "mcp_initialize_processor_ratio": median_ratio(agent[0]),
        "mcp_call_processor_ratio": median_ratio(agent[1]),
        "rss_ratio": median_ratio(memory),
        "python_pass_ms": median_baseline(version),
        "import_prompt_toolkit_ms": median_baseline(prompt),
        "baseline_run_ms": median_baseline(run),
        "baseline_run_processor_ms": median_baseline(processor),
        "import_acp_processor_ms": median_baseline(editor[0]),
        "import_mcp_processor_ms": median_baseline(agent[0]),
        "baseline_responses_run_ms": median_baseline(responses),
        "baseline_rss_kb": median_baseline(memory),
    }
    report("startup", figures, argv)
    return 0


AGENT_SAYS = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "kode_sessions", "arguments": {}}},
)


def editor_says(project: Path) -> Sequence[Mapping[str, Any]]:
    hello = {"protocolVersion": 1, "clientCapabilities": {}}
    return (
        {"id": 1, "method": "initialize", "params": hello},
        {"id": 2, "method": "session/new", "params": {"cwd": str(project), "mcpServers": []}},
    )


def _answers(
    command: Sequence[str],
    sdk: Sequence[str],
    says: Sequence[Mapping[str, Any]],
    environ: Mapping[str, str],
    project: Path,
) -> tuple[list[Pair], list[Pair]]:
    """Pairs for the first and for the last answer."""

    def until(last: int) -> list[Pair]:
        return paired(
            lambda: processor_ms(sdk, environ, project),
            lambda: answered_ms(command, says, last, environ, project),
            runs=9,
        )

    return until(1), until(2)


def prompt_ms(environ: Mapping[str, str], project: Path) -> float:
    """From the start of `kode` in a terminal to its prompt on the screen."""
    import pexpect

    started = time.perf_counter()
    child = pexpect.spawn(
        KODE,
        ["--provider", "openai"],
        env=dict(environ),
        cwd=str(project),
        dimensions=(24, 80),
        encoding="utf-8",
    )
    try:
        child.expect("> ", timeout=30)
        elapsed = (time.perf_counter() - started) * 1000
    finally:
        child.close(force=True)
    return elapsed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
