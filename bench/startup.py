"""How fast kode is there: `python -m bench.startup [--json]`.

Ratios against `python -c pass`, `python -c "import prompt_toolkit"` and the plainest loop with the
SDK of the vendor, each the median of paired runs on this machine, in a home with memory and many
sessions. `prompt_ratio` is for the time until a key stands on the screen; `responses_...` and
`messages_...` are in the other wire formats. For an editor and another agent: the processor time
until kode has answered, against the mere import of the SDK that serves them.
"""

import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.measure import (
    FORMATS,
    KODE,
    Pair,
    by_size,
    compare,
    fill_with_sessions,
    loop_and_kode,
    measure_answer_ms,
    median_baseline,
    median_ratio,
    report,
    run,
    workplace,
)
from bench.time_to_prompt import seconds_to_key
from tests.scripted_server import ScriptedServer

SESSIONS = by_size(10_000, 20)
RUNS, WARM_UPS = by_size(8, 1), by_size(1, 0)
TASK = "say hello"
ANSWER = '{"narrative": "The user said hello.", "facts": []}'
"""To the task, and to memory's question about a session."""
PYTHON = sys.executable
ACP_SDK = [PYTHON, "-c", "import acp"]
MCP_SDK = [PYTHON, "-c", "import mcp.server.mcpserver"]


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with (
        ScriptedServer([{"text": ANSWER}], repeat_last=True) as server,
        workplace(server.openai_url) as (project, environ),
    ):
        use_home(environ, project)
        version = compare(
            lambda: run([PYTHON, "-c", "pass"], environ, project).wall_ms,
            lambda: run([KODE, "--version"], environ, project).wall_ms,
            runs=15,
        )
        command = f"{KODE} --provider openai"
        prompt = compare(
            lambda: run([PYTHON, "-c", "import prompt_toolkit"], environ, project).wall_ms,
            lambda: seconds_to_key(command, environ, project) * 1000,
            runs=9,
        )
        editor = _answers([KODE, "acp"], ACP_SDK, editor_says(project), environ, project)
        agent = _answers([KODE, "mcp", "serve"], MCP_SDK, AGENT_SAYS, environ, project)
        figures = {
            "version_ratio": median_ratio(version),
            "prompt_ratio": median_ratio(prompt),
            "python_pass_ms": median_baseline(version),
            "import_prompt_toolkit_ms": median_baseline(prompt),
            "acp_initialize_processor_ratio": median_ratio(editor[0]),
            "acp_session_processor_ratio": median_ratio(editor[1]),
            "mcp_initialize_processor_ratio": median_ratio(agent[0]),
            "mcp_call_processor_ratio": median_ratio(agent[1]),
            "import_acp_processor_ms": median_baseline(editor[0]),
            "import_mcp_processor_ms": median_baseline(agent[0]),
        }
        for api in FORMATS:
            before = "" if api == "chat" else f"{api}_"
            for name, value in _runs(api, environ, project).items():
                figures[f"{before}{name}"] = value
    return report(figures, as_json="--json" in argv)


def use_home(environ: Mapping[str, str], project: Path) -> None:
    """Makes the home one that has been used: facts, a note on a session, many sessions."""
    home = Path(environ["KODE_HOME"])
    # By a process of its own, so that this one stays small: it counts in what its children take.
    fill = get_context("spawn").Process(target=fill_with_sessions, args=(home, project, SESSIONS))
    fill.start()
    fill.join()
    ask = loop_and_kode(environ, "chat", TASK)[1]
    # The third turn is the first to leave a note.
    for words in (ask, [KODE, "continue", *ask[2:]], [KODE, "continue", *ask[2:]]):
        run(words, environ, project)
    for target, text in {"user": "Prefers short answers.", "env": "Tests run with tox."}.items():
        run([KODE, "memory", "add", target, text], environ, project)
    assert list((home / "memory" / "episodes").glob("*.md"))


def _runs(api: str, environ: Mapping[str, str], project: Path) -> dict[str, float]:
    """One task in a wire format, by the loop and by kode."""
    loop, kode = loop_and_kode(environ, api, TASK)
    runs = [(run(loop, environ, project), run(kode, environ, project)) for _ in range(RUNS)]
    wall = [Pair(bare.wall_ms, kode.wall_ms) for bare, kode in runs[WARM_UPS:]]
    processor = [Pair(bare.processor_ms, kode.processor_ms) for bare, kode in runs[WARM_UPS:]]
    memory = [Pair(bare.rss_kb, kode.rss_kb) for bare, kode in runs[WARM_UPS:]]
    return {
        "run_ratio": median_ratio(wall),
        "run_processor_ratio": median_ratio(processor),
        "rss_ratio": median_ratio(memory),
        "baseline_run_ms": median_baseline(wall),
        "baseline_run_processor_ms": median_baseline(processor),
        "baseline_rss_kb": median_baseline(memory),
    }


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
        return compare(
            lambda: run(sdk, environ, project).processor_ms,
            lambda: measure_answer_ms(command, says, last, environ, project),
            runs=9,
        )

    return until(1), until(2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
