"""Tasks that end in a test: set, worked on by a scripted model, judged, undone, continued."""

import json
from pathlib import Path

import pytest

from bench import tasks as command
from bench.results import read_results, wilson_interval
from bench.tasks.agents import Limits, Worked
from bench.tasks.packages import Package, is_test, sources
from bench.tasks.run import hashes, judge, laid_out, run_task
from bench.tasks.scripted import serve
from bench.tasks.table import figures
from bench.tasks.tasks import Task, defect_tasks
from tests.needs import PLAIN_PYTHON, needs

pytestmark = needs("bwrap")

MODULE = """\
def clamp(value, low=0, high=10):
    if value < low:
        return low
    if value > high:
        return high
    return value


def last(items, number=1):
    return items[len(items) - number:]
"""
TESTS = """\
import unittest

from small import clamp, last


class TestSmall(unittest.TestCase):
    def test_low(self):
        self.assertEqual(clamp(-1), 0)

    def test_high(self):
        self.assertEqual(clamp(11), 10)

    def test_between(self):
        self.assertEqual(clamp(5), 5)

    def test_last(self):
        self.assertEqual(last([1, 2, 3]), [3])
"""
SUITE = f"{PLAIN_PYTHON} -m unittest -q"


@pytest.fixture
def package(tmp_path: Path) -> Package:
    tree = tmp_path / "small"
    (tree / "tests").mkdir(parents=True)
    (tree / "small.py").write_text(MODULE)
    (tree / "tests/__init__.py").write_text("")
    (tree / "tests/test_small.py").write_text(TESTS)
    return Package(name="small==1", tree=tree, sources=("small.py",), command=SUITE)


@pytest.fixture
def some(package: Package, tmp_path: Path) -> list[Task]:
    return defect_tasks(package, 2, seed=1, hint="name", cache=tmp_path / "cache")


def test_sources_are_the_modules_that_are_no_tests(package: Package) -> None:
    assert sources(package.tree) == ["small.py"]
    assert is_test(Path("tests/data/rows.json"))
    assert not is_test(Path("small.py"))


@pytest.mark.slow
def test_each_defect_breaks_a_test_that_its_fix_mends(package: Package, tmp_path: Path) -> None:
    found = defect_tasks(package, 4, seed=3, hint="output", cache=tmp_path / "cache")

    assert len(found) == 4
    for task in found:
        with laid_out(task) as desk:
            broken = judge(task, desk)
            assert broken.whole
            assert broken.failed
            assert all(name in task.prompt for name in broken.failed)
            target = desk.project / task.target
            target.write_text(target.read_text().replace(task.old_text, task.new_text))
            assert judge(task, desk).green


@pytest.mark.slow
def test_a_seed_decides_which_tasks_there_are(package: Package, tmp_path: Path) -> None:
    def texts(seed: int, cache: str) -> list[str]:
        found = defect_tasks(package, 3, seed=seed, hint="name", cache=tmp_path / cache)
        return [task.files["small.py"] for task in found]

    assert texts(1, "a") == texts(1, "b")
    assert texts(1, "a") != texts(2, "a")


@pytest.mark.slow
def test_both_agents_solve_tasks_and_kode_undoes_them(
    some: list[Task],
) -> None:
    limits = Limits(steps=10, seconds=120)
    with serve() as wire:
        for task in some:
            for agent in ("kode", "loop"):
                wire.play(task)
                line = run_task(task, agent, wire.model, limits, "key")
                assert line.solved, line
                assert (line.damaged, line.left) == ([], [])
                assert line.undone is (True if agent == "kode" else None)
                assert line.worked.steps == wire.requests == 4


@pytest.mark.slow
def test_a_run_that_was_cut_off_continues_where_it_stopped(
    some: list[Task],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "_tasks", lambda options: some)
    out = tmp_path / "results.jsonl"
    words = ["--agents", "loop", "--out", str(out), "--json"]
    command.main(words)
    whole = out.read_text()
    out.write_text(whole.splitlines(keepends=True)[0] + '{"key": "cut o')
    capsys.readouterr()

    command.main(words)

    said = capsys.readouterr()
    assert json.loads(said.out)["solved_by_baseline"] == 2
    assert said.err.count("solved") == 1
    assert list(read_results(out)) == [json.loads(line)["key"] for line in whole.splitlines()]


@pytest.mark.slow
def test_a_changed_test_is_no_solution(some: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    def cheat(agent: str, prompt: str, desk: object, *rest: object) -> Worked:
        project = desk.project  # type: ignore[attr-defined]
        (project / "tests/test_small.py").write_text("import unittest\n")
        (project.parent / "notes.md").unlink()
        (project / "small.py").write_text(MODULE)
        return Worked(status="success", steps=1, input_tokens=1, cached_tokens=0,
                      output_tokens=1, seconds=0.1)  # fmt: skip

    monkeypatch.setattr("bench.tasks.run.work", cheat)
    with serve() as wire:
        line = run_task(some[0], "loop", wire.model, Limits(steps=1, seconds=1), "key")

    assert not line.solved
    assert line.damaged == ["notes.md", "project/tests/test_small.py"]


def test_caches_are_no_new_files(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/small.pyc").write_bytes(b"x")
    (tmp_path / "a.py").write_text("a")

    assert list(hashes(tmp_path)) == ["a.py"]


@pytest.mark.parametrize(
    ("hits", "number", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)],
)
def test_the_interval_is_wilsons(hits: int, number: int, low: float, high: float) -> None:
    assert wilson_interval(hits, number) == pytest.approx((low, high), abs=1e-3)


def test_figures_of_no_rows_are_no_error() -> None:
    assert figures([])["tasks"] == 0
