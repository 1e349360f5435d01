"""What the sandbox costs, what it lets pass, and what gets through: `python -m bench.wall`.

    python -m bench.wall [--data PATH] [--attacks PATH] [--json]

overhead_ratio      of `true` in the sandbox to a bare one; medians of paired runs, in a repository
overhead            of `true`, `git status` and a run of pytest: bare_ms, added_ms, ratio
everyday_unasked    the share of harmless command lines that run without a question in mode `ask`
                    where there is a sandbox: the `safe` rows of the corpus (`--data`), and the
                    commands of development in `everyday/commands.jsonl`; `asked` lists the others
everyday_passed     of those commands of development that are installed here and pass in a small
                    project, how many pass in the sandbox; `everyday_failed` lists the others
effects             the lines of `--attacks` (by default those of the tests) that had an effect, run
                    from a script whose text nobody reads; null where no jail can be made

`--attacks ""` leaves the attacks out, which take minutes.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.corpora import DATA, rows
from bench.measure import Pair, by_size, compare, median_ratio, report
from kode.permissions.gate import Gate, GateState
from kode.permissions.rules import Rules
from kode.sandbox.sandbox import Sandbox
from kode.tool import Action
from kode.tools.shell import shell
from tests.attacks import jail
from tests.attacks.campaign import Job, run
from tests.workplaces import workplace

EVERYDAY = Path(__file__).parent / "everyday"
ATTACKS = Path(__file__).parents[1] / "tests/attacks/data/lines.jsonl"
RUNS = {"true": 20, "git_status": 20, "pytest": by_size(5, 1)}
COMMAND_S = 120
SHOWN_CHARS = 300


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; exits 0 whatever they are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA / "shell.jsonl")
    parser.add_argument("--attacks", default=str(ATTACKS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    with _project() as sandbox:
        figures: dict[str, Any] = {
            "kind": sandbox.support().kind,
            "layered": sandbox.kind() == "layered",
        }
        figures |= _cost(sandbox)
        figures |= _questions(sandbox, options.data)
        figures |= _passing(sandbox)
    figures["effects"] = _effects(Path(options.attacks)) if options.attacks else None
    return report(figures, as_json=options.json)


@contextmanager
def _project() -> Iterator[Sandbox]:
    """A repository with a small project in many languages, and a sandbox for it."""
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        project = Path(folder) / "project"
        shutil.copytree(EVERYDAY / "project", project)
        git = [
            "git",
            "-C",
            str(project),
            "-c",
            "user.name=bench",
            "-c",
            "user.email=b@example.test",
        ]
        subprocess.run([*git, "init", "-q"], check=True)
        for message in ("first", "second"):
            (project / "README.md").open("a").write(f"\n{message}\n")
            subprocess.run([*git, "add", "-A"], check=True)
            subprocess.run([*git, "commit", "-q", "-m", message], check=True)
        yield Sandbox(place=workplace(project, home=Path(folder) / "kode-home"))


# ── what it costs ────────────────────────────────────────────────────────────────────────────


def _cost(sandbox: Sandbox) -> dict[str, Any]:
    if sandbox.support().kind == "none":
        return {"overhead_ratio": None, "overhead": None}
    commands = {"true": "true", "git_status": "git status"}
    if (
        _inside(sandbox, f"{sys.executable} -c ''")[0] == 0
    ):  # not in a home, which the sandbox hides
        commands["pytest"] = _pytest()
    pairs = {name: _pairs(sandbox, command, RUNS[name]) for name, command in commands.items()}
    overhead = {
        name: {
            "bare_ms": round(statistics.median(pair.baseline_ms for pair in runs), 1),
            "added_ms": round(
                statistics.median(pair.kode_ms - pair.baseline_ms for pair in runs), 1
            ),
            "ratio": median_ratio(runs),
        }
        for name, runs in pairs.items()
    }
    return {"overhead_ratio": overhead["true"]["ratio"], "overhead": overhead}


def _pytest() -> str:
    return f"{sys.executable} -m pytest -q -p no:cacheprovider"


def _pairs(sandbox: Sandbox, command: str, runs: int) -> list[Pair]:
    def timed(once: Callable[[Sandbox, str], tuple[int, str]]) -> Callable[[], float]:
        def run_ms() -> float:
            started = time.perf_counter()
            code, said = once(sandbox, command)
            if code:
                raise RuntimeError(f"{command}: exit {code}: {said[-SHOWN_CHARS:]}")
            return (time.perf_counter() - started) * 1000

        return run_ms

    return compare(timed(_bare), timed(_inside), runs)


def _bare(sandbox: Sandbox, command: str) -> tuple[int, str]:
    return _run(("/bin/bash", "-c", command), sandbox.place.cwd)


def _inside(sandbox: Sandbox, command: str) -> tuple[int, str]:
    """All that a command costs: its limits, the copy, the run, and looking at what changed."""
    attempt = sandbox.begin()
    wrapped = attempt.wrap(("/bin/bash", "-c", command))
    try:
        done = _run(wrapped.argv, sandbox.place.cwd, wrapped.descriptors)
    finally:
        wrapped.settle()
    attempt.changes()
    attempt.close()
    return done


def _run(argv: Sequence[str], cwd: Path, descriptors: Sequence[int] = ()) -> tuple[int, str]:
    """Exit status, and what it printed. A command that takes too long counts as failed."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            timeout=COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"took more than {COMMAND_S} s"
    return done.returncode, done.stdout.decode(errors="replace")


# ── what it lets pass ────────────────────────────────────────────────────────────────────────


def _questions(sandbox: Sandbox, data: Path) -> dict[str, Any]:
    safe = [row["cmd"] for row in rows(data, "shell") if row["class"] == "safe"]
    everyday = [row["cmd"] for row in _everyday()]
    asked = {
        command: reason for command in (*safe, *everyday) if (reason := _asked(sandbox, command))
    }

    def share(commands: Sequence[str]) -> float:
        return round(sum(command not in asked for command in commands) / max(len(commands), 1), 4)

    return {
        "everyday_unasked": share([*safe, *everyday]),
        "unasked_of_corpus": share(safe),
        "unasked_of_development": share(everyday),
        "asked": asked,
    }


def _asked(sandbox: Sandbox, command: str) -> str:
    """Why a command is asked about, by the real gate; "" when it runs unasked."""
    place, state = sandbox.place, GateState(mode="ask")
    gate = Gate(rules=Rules(), state=state, place=place, sandbox=sandbox)
    decision = gate.decide(Action(call_id="bench", tool=shell, arguments={"command": command}))
    return "" if decision.is_allowed else decision.reason[:SHOWN_CHARS]


def _passing(sandbox: Sandbox) -> dict[str, Any]:
    if sandbox.support().kind == "none":
        return {"everyday_passed": None, "everyday_failed": None, "not_tried": None}
    passed, failed, not_tried = 0, {}, {}
    for row in _everyday():
        command = str(row["cmd"])
        if missing := [name for name in row["needs"] if not shutil.which(name)]:
            not_tried[command] = f"not installed: {', '.join(missing)}"
            continue
        code, said = _bare(sandbox, command)
        _clean(sandbox.place.cwd)
        if code:
            not_tried[command] = f"fails without the sandbox: {said.strip()[-SHOWN_CHARS:]}"
            continue
        code, said = _inside(sandbox, command)
        if code:
            failed[command] = f"exit {code}: {said.strip()[-SHOWN_CHARS:]}"
        else:
            passed += 1
    tried = f"{passed} of {passed + len(failed)}"
    return {"everyday_passed": tried, "everyday_failed": failed, "not_tried": not_tried}


def _clean(project: Path) -> None:
    """What the run without the sandbox built must not help the other."""
    subprocess.run(["git", "clean", "-fdxq"], cwd=project, check=True)


def _everyday() -> list[dict[str, Any]]:
    every = rows(EVERYDAY / "commands.jsonl", "commands")
    return by_size(every, every[:3])


# ── what gets through ────────────────────────────────────────────────────────────────────────


def _effects(data: Path) -> list[str] | None:
    lines = [
        str(row.get("line") or row["cmd"])
        for row in rows(data, "attacks")
        if row.get("class") != "safe" and "known" not in row
    ]
    if jail.main(["true"]):
        return None
    done = run(
        Job(lines=tuple(lines), mode="ask", user="dev", in_script=True),
        timeout_s=30 + 5 * len(lines),
    )
    return [f"{job.line}: {', '.join(job.effects)}" for job in done if job.effects]


if __name__ == "__main__":
    raise SystemExit(main())
