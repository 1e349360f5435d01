"""How fast kode is there: `python -m bench.startup [--json]`.

Ratios against `python -c pass`, `python -c "import prompt_toolkit"` and the plainest loop with the
same SDK, each the median of paired runs on this machine.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.measure import (
    KODE,
    Pair,
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
        "rss_ratio": median_ratio(memory),
        "python_pass_ms": median_baseline(version),
        "import_prompt_toolkit_ms": median_baseline(prompt),
        "baseline_run_ms": median_baseline(run),
        "baseline_run_processor_ms": median_baseline(processor),
        "baseline_responses_run_ms": median_baseline(responses),
        "baseline_rss_kb": median_baseline(memory),
    }
    report("startup", figures, argv)
    return 0


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
