"""Each benchmark runs, in its smallest size, and prints what scripts read of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import NAMES

pytestmark = pytest.mark.sampled(of=4)

FIELDS = {
    "startup": ["version_ratio", "prompt_ratio", "run_ratio", "rss_ratio", "messages_run_ratio"],
    "turns": ["per_turn_ratio", "late_turn_ratio", "bytes_ratio", "prefix_identical"],
    "first_request": ["chat total", "responses total", "messages total"],
    "prefix": ["kept"],
    "cost_of_a_day": ["chat"],
    "compaction": ["kept"],
    "walk": ["read_modules", "fact_calls"],
    "sessions": ["list_ratio"],
    "merge": ["writes", "decided", "decided_weighted", "lost", "contradictions"],
    "updates": ["ordinary", "large"],
    "retrieval": ["recall@10", "mrr", "p@1", "session_any@10", "ms_per_query"],
    "memory_scale": ["search_ratio", "add_ratio", "open_ratio"],
    "scan": ["caught", "refused_wrongly", "missed", "refused"],
    "shell": ["unsafe_called_safe", "safe_called_safe", "exact", "confusion"],
    "edits": ["edit_file", "apply_patch"],
    "wall": ["overhead_ratio", "everyday_unasked", "effects"],
    "undo": ["10 files"],
    "subagents": ["spawn_ratio", "schedule_ratio"],
    "fleet": ["overhead_ratio", "lost", "repeated"],
    "conversations": ["time_ratio", "memory_ratio"],
    "extensions": ["first_turn_ratio", "prefix_identical"],
    "systems": ["systems"],
    "memory_life": ["sizes"],
    "time_to_prompt": ["kode_s"],
}
"""By benchmark: of the figures that it prints."""

FLAGS = {
    "edits": ["--edits", "2"],
    "fleet": ["--tasks", "2", "--jobs", "2", "--many", "4"],
    "memory_life": ["--sizes", "3", "--systems", "tiered"],
    "updates": ["--lives", "1"],
    "wall": ["--attacks="],
}
FAST = ("edits", "shell")
OF_ITS_OWN = "tasks"
"""The one that tests of its own start."""

CONVERSATION = {
    "session_1": [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a red cat."},
        {"speaker": "Bob", "dia_id": "D1:2", "text": "The weather is fine."},
    ],
    "session_1_summary": "Ann adopted a cat.",
    "qa": [{"question": "Who adopted a cat?", "evidence": ["D1:1"], "category": 1}],
}


def test_every_benchmark_is_started_by_a_test() -> None:
    assert set(NAMES) <= {*FIELDS, OF_ITS_OWN}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in FIELDS]
)
def test_a_benchmark_prints_its_figures(name: str, tmp_path: Path) -> None:
    data = tmp_path / "conversation.json"
    data.write_text(json.dumps(CONVERSATION))
    flags = {"retrieval": ["--data", str(data)], **FLAGS}
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", "--json", *flags.get(name, [])],
        env={**os.environ, "BENCH": "small"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert set(FIELDS[name]) <= json.loads(done.stdout).keys()
