"""What `.ci/run` makes of tests that failed beside others: a few run once more, many end it."""

import json
import re
import subprocess
from pathlib import Path

import pytest

RUN = (Path(__file__).parents[2] / ".ci" / "run").read_text(encoding="utf-8")


def ended(folder: Path, failed: int, again: str) -> int:
    """The exit status of a stage in which so many tests failed, and whose second look ends so."""
    cache = folder / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(
        json.dumps(dict.fromkeys(map(str, range(failed)), True), indent=2)
    )
    few_failed = re.search(r"(?ms)^FEW=.*?^few_failed\(\) \{.*?^\}", RUN)
    assert few_failed is not None
    stage = few_failed[0], f"false || {{ few_failed; {again}; }}", "echo Done"
    script = "\n".join(("set -euo pipefail", "stage() { :; }", *stage))
    return subprocess.run(["bash", "-c", script], cwd=folder, check=False).returncode


@pytest.mark.parametrize(
    ("failed", "again", "status"),
    [(0, "true", 1), (3, "true", 0), (3, "false", 1), (9, "true", 1)],
)
def test_ci_fails_with_its_tests(tmp_path: Path, failed: int, again: str, status: int) -> None:
    assert ended(tmp_path, failed, again) == status


def test_every_second_look_can_fail() -> None:
    looks = re.findall(r"\|\| \{.*few_failed(.)", RUN)
    assert looks
    assert set(looks) == {";"}
