"""What the sandbox costs a command: `python -m bench.sandbox [--json]`.

bare_ms           `bash -c true` without a sandbox
interpreter_ms    the Python that starts the launcher, alone: the floor of both kinds
bubblewrap_ms     added to the bare command by the whole sandbox
bubblewrap_ratio  of a command in it to a bare one
landlock_ms       the same by Landlock and seccomp alone
landlock_ratio
self_test_ms      finding out what holds on this machine, once a process

All but the last are medians of paired runs, in a git repository; a kind that this machine does not
have is null.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import report
from kode.tools.sandbox import Kind, Sandbox, open_sandbox

RUNS = 30
COMMAND = ("/bin/bash", "-c", "true")


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        subprocess.run(["git", "init", "-q", str(project)], check=True)

        def opened() -> Sandbox:
            return open_sandbox(
                cwd=project,
                roots=(project,),
                repository=project,
                kode_home=Path(folder) / "kode-home",
                outputs=Path(folder) / "kode-home" / "outputs",
                network=False,
            )

        started = time.perf_counter()
        standing = opened().standing()
        self_test_ms = (time.perf_counter() - started) * 1000
        interpreter = (os.path.realpath(sys.executable), "-I", "-S", "-c", "pass")
        figures = {
            "kind": standing.kind,
            "bare_ms": _median_ms(COMMAND, project),
            "interpreter_ms": _median_ms(interpreter, project),
            **_added(opened(), "bubblewrap", project),
            **_added(opened(), "landlock", project),
            "self_test_ms": round(self_test_ms, 1),
        }
    report("sandbox", figures, argv)
    return 0


def _added(sandbox: Sandbox, kind: Kind, cwd: Path) -> dict[str, float | None]:
    names = (f"{kind}_ms", f"{kind}_ratio")
    if sandbox.fault(kind):
        return dict.fromkeys(names)
    pairs = [(_run_ms(COMMAND, cwd), _run_wrapped_ms(sandbox, kind, cwd)) for _ in range(RUNS)]
    added_ms = statistics.median(inside - bare for bare, inside in pairs)
    ratio = statistics.median(inside / bare for bare, inside in pairs)
    return dict(zip(names, (round(added_ms, 1), round(ratio, 1)), strict=True))


def _median_ms(argv: Sequence[str], cwd: Path) -> float:
    return round(statistics.median(_run_ms(argv, cwd) for _ in range(RUNS)), 1)


def _run_wrapped_ms(sandbox: Sandbox, kind: Kind, cwd: Path) -> float:
    """All that a command costs: making its limits, running it, and settling."""
    started = time.perf_counter()
    wrapped = sandbox.command(kind, COMMAND)
    _run_ms(wrapped.argv, cwd, wrapped.descriptors)
    wrapped.settle()
    return (time.perf_counter() - started) * 1000


def _run_ms(argv: Sequence[str], cwd: Path, descriptors: Sequence[int] = ()) -> float:
    started = time.perf_counter()
    subprocess.run(
        argv,
        cwd=cwd,
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
