"""How soon a key is on the screen: `python -m bench.time_to_prompt [PROGRAM ...] [--json]`.

Each program starts in this folder, in a terminal of its own, and one key is pressed again and again
until it stands on the screen: then a person can type. Medians of interleaved runs, and kode's time
in those of the others; set the others up first, or they begin with questions.
"""

import contextlib
import os
import shlex
import signal
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pexpect
import pyte

from bench.measure import KODE, by_size, report, workplace

KEY = "Ω"
"""A letter that no program prints by itself."""
RUNS = by_size(5, 1)
PRESSED_EVERY_S = 0.05
GIVEN_UP_AFTER_S = 60.0


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    others = [word for word in argv if not word.startswith("--")]
    programs = {"kode": f"{KODE} --provider openai"} | {Path(o.split()[0]).name: o for o in others}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    with workplace("http://127.0.0.1:9") as (_, environ):
        for run in range(RUNS + 1):
            for name, command in programs.items():
                took = seconds_to_key(command, {**environ, **os.environ}, Path.cwd())
                if run:  # the first one warms up
                    seconds[name].append(took)
    medians = {name: statistics.median(took) for name, took in seconds.items()}
    figures = {f"{name}_s": round(took, 2) for name, took in medians.items()}
    ratios = {
        f"kode_to_{name}": round(medians["kode"] / took, 2)
        for name, took in medians.items()
        if name != "kode"
    }
    return report(figures | ratios, as_json="--json" in argv)


def seconds_to_key(command: str, environ: Mapping[str, str], cwd: Path) -> float:
    """From the start of a program to the first key on its screen."""
    screen = pyte.Screen(100, 30)
    stream = pyte.ByteStream(screen)
    started = time.perf_counter()
    program, *arguments = shlex.split(command)
    child: pexpect.spawn[bytes] = pexpect.spawn(
        program,
        arguments,
        env={**environ, "TERM": "xterm-256color"},
        cwd=str(cwd),
        dimensions=(30, 100),
        echo=False,
    )
    pressed = 0.0
    try:
        while KEY not in "".join(screen.display):
            now = time.perf_counter() - started
            if now > GIVEN_UP_AFTER_S:
                return GIVEN_UP_AFTER_S
            if now - pressed >= PRESSED_EVERY_S:
                child.send(KEY)
                pressed = now
            try:
                stream.feed(child.read_nonblocking(65536, timeout=0.01))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                return GIVEN_UP_AFTER_S
        return time.perf_counter() - started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid or 0, signal.SIGKILL)  # some ignore the signals that ask
        child.wait()
        child.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
