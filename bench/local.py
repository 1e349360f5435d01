"""What a model on a server of your own solves with kode, and what it has to read again:
`python -m bench.local --server URL [--model M] [--profile small|full] [--only TASK,..] [--prefill]
[--source FOLDER]`.

solved      of eight small tasks, each in a folder of its own and checked by looking at the folder
requests    to the model, and tokens: `input` with the `cached` ones, `output`
prefill     tokens of the first request that were not in the server's cache: the first time, again,
            in a new folder, on a new day, after a new fact

The server is yours (`llama-server -m FILE --jinja -c 16384`); it should have nothing else to do.
With `--source` the kode in another folder is measured, to compare two on the same server.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

ADD = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\n\nassert add(2, 3) == 5, add(2, 3)\nprint('all good')\n"
HALF = "def half(n):\n    return n / 2\n"
USES_HALF = "from tools import half\n\nprint(half(8))\n"

TOMORROW = """
import datetime, sys
from kode import assembly
class Tomorrow(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + datetime.timedelta(days=1)
assembly.datetime = Tomorrow
from kode.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""kode as it will be tomorrow."""


@dataclass(frozen=True, kw_only=True)
class Task:
    text: str
    files: Mapping[str, str]
    is_solved: Callable[[Path, str], bool]
    """Of the folder afterwards and the answer."""


def runs(folder: Path, name: str, said: str) -> bool:
    """Whether a program of the folder ends well and says this."""
    done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True)
    return done.returncode == 0 and said in done.stdout


TASKS: Mapping[str, Task] = {
    "read": Task(
        text="Which port does settings.ini name? Answer with the number.",
        files={"settings.ini": "[server]\nhost = localhost\nport = 8437\n"},
        is_solved=lambda folder, answer: "8437" in answer,
    ),
    "find": Task(
        text="In which file is the function `parse_row` defined? Answer with the file's name.",
        files={f"part{n}.py": f"def helper_{n}():\n    return {n}\n" for n in range(6)}
        | {"rows.py": "def parse_row(line):\n    return line.split(',')\n"},
        is_solved=lambda folder, answer: "rows.py" in answer,
    ),
    "write": Task(
        text="Write a file hello.py that prints: hello, world",
        files={},
        is_solved=lambda folder, answer: runs(folder, "hello.py", "hello, world"),
    ),
    "fix": Task(
        text="add in calc.py subtracts. Fix it.",
        files={"calc.py": ADD},
        is_solved=lambda folder, answer: (folder / "calc.py").read_text() == ADD.replace("-", "+"),
    ),
    "test": Task(
        text="`python3 test_calc.py` fails. Find out why and fix calc.py until it passes.",
        files={"calc.py": ADD, "test_calc.py": TEST},
        is_solved=lambda folder, answer: (
            (folder / "test_calc.py").read_text() == TEST
            and runs(folder, "test_calc.py", "all good")
        ),
    ),
    "rename": Task(
        text="Rename the function `half` to `halve` in tools.py and in main.py, which uses it.",
        files={"tools.py": HALF, "main.py": USES_HALF},
        is_solved=lambda folder, answer: (
            "half(" not in (folder / "tools.py").read_text()
            and "halve" in (folder / "main.py").read_text()
            and runs(folder, "main.py", "4.0")
        ),
    ),
    "remember": Task(
        text="Remember that our releases are cut on Fridays.",
        files={},
        is_solved=lambda folder, answer: any(
            "riday" in path.read_text() for path in (folder.parent / "kode/memory").rglob("*.md")
        ),
    ),
    "list": Task(
        text="Write the names of all Python files of this folder into names.txt, one a line.",
        files={"one.py": "", "two.py": "", "notes.md": "", "three.py": ""},
        is_solved=lambda folder, answer: (
            sorted((folder / "names.txt").read_text().split()) == ["one.py", "three.py", "two.py"]
        ),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """kode, against one server."""

    server: str
    model: str
    profile: str
    """"" leaves it to kode, by the window."""
    source: Path
    limit_s: float

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A folder to work in, with a home of kode beside it that waits as long as it takes."""
        with tempfile.TemporaryDirectory(prefix="kode-bench-") as above:
            folder = Path(above) / "project"
            folder.mkdir()
            settings = {
                "provider": "openai",
                "base_url": self.server,
                "model": self.model,
                "retry": {"idle_timeout_s": self.limit_s, "total_timeout_s": self.limit_s},
                **({"profile": self.profile} if self.profile else {}),
            }
            (Path(above) / "kode").mkdir()
            (Path(above) / "kode/config.json").write_text(json.dumps(settings))
            yield folder

    def kode(self, folder: Path, *arguments: str, tomorrow: bool = False) -> str:
        """What it printed, whatever its exit code."""
        program = ["-c", TOMORROW] if tomorrow else ["-m", "kode"]
        done = subprocess.run(
            [sys.executable, *program, *arguments],
            cwd=folder,
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(folder.parent),
                "KODE_HOME": str(folder.parent / "kode"),
                "PYTHONPATH": str(self.source),
                "LANG": "C.UTF-8",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def ask(self, folder: Path, text: str, *, steps: int, tomorrow: bool = False) -> dict[str, Any]:
        """The result of one task, as `kode run --output-format json` prints it."""
        limits = ("--max-steps", str(steps), "--timeout", str(self.limit_s))
        form = ("--permission-mode", "full", "--output-format", "json")
        printed = self.kode(folder, "run", text, *limits, *form, tomorrow=tomorrow)
        result: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return result


def solve(run: Run, name: str) -> dict[str, Any]:
    """One task; its figures."""
    task = TASKS[name]
    with run.place() as folder:
        for file, text in task.files.items():
            (folder / file).write_text(text)
        result = run.ask(folder, task.text, steps=8)
        try:
            solved = task.is_solved(folder, result["result"])
        except OSError:
            solved = False
    return {
        "task": name,
        "solved": solved,
        "status": result["status"],
        "requests": result["steps"],
        **result["usage"],
        "seconds": round(result["duration_ms"] / 1000),
        "error": result["error"],
    }


def prefill(run: Run) -> dict[str, int]:
    """Tokens of a first request that the server had to read, in each situation."""

    def read(folder: Path, tomorrow: bool = False) -> int:
        usage = run.ask(folder, "Say yes.", steps=1, tomorrow=tomorrow)["usage"]
        return int(usage["input_tokens"] - usage["cached_tokens"])

    with run.place() as one, run.place() as other:
        figures = {"first_time": read(one), "again": read(one), "new_folder": read(other)}
        figures["new_day"] = read(other, tomorrow=True)
        run.kode(other, "memory", "add", "env", "Releases are cut on Fridays.")
        return {**figures, "new_fact": read(other, tomorrow=True)}


def main(argv: Sequence[str]) -> int:
    """Prints a line for each figure as soon as it is there; exits 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="python -m bench.local")
    parser.add_argument("--server", required=True, help="base URL, which mostly ends in /v1")
    parser.add_argument("--model", default="local")
    parser.add_argument("--profile", default="", help="small or full; default: by the window")
    parser.add_argument("--only", default=",".join(TASKS), help="tasks, separated by commas")
    parser.add_argument("--prefill", action="store_true", help="only what is read again")
    parser.add_argument("--source", type=Path, default=ROOT, help="folder of the kode to measure")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one task")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    run = Run(
        server=given.server,
        model=given.model,
        profile=given.profile,
        source=given.source,
        limit_s=given.limit,
    )
    lines = (
        [prefill(run)] if given.prefill else (solve(run, name) for name in given.only.split(","))
    )
    for line in lines:
        text = json.dumps(line) if given.json else "  ".join(f"{k} {v}" for k, v in line.items())
        print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
