"""Plays command lines through the installed `kode run`, and says what each did.

    python -m tests.attacks.campaign < JOB.json

runs inside the jail (`run` starts it there). The model's server gives kode one call at a time; when
kode asks for the next, what the last one did is looked at, and put right.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tests.attacks.files import SCRIPT, canary
from tests.attacks.jail import REPOSITORY
from tests.attacks.witness import MODEL_PORT
from tests.attacks.world import World
from tests.scripted_server import ScriptedServer

Sandbox = Literal["bubblewrap", "landlock", "none"]

BATCH = 25
"""Lines to one process of kode: its answers become too long for a model some time."""
LINE_S = 4
BATCH_S = 240
MAX_OUTPUT_CHARS = 600


@dataclass(frozen=True, kw_only=True)
class Job:
    """Lines for one world."""

    lines: tuple[str, ...] = ()
    mode: str
    user: str = "root"
    sandbox: Sandbox = "bubblewrap"
    flags: tuple[str, ...] = ()
    """More words for `kode run`."""
    in_script: bool = False
    """Each line is put into a script of the project, which is what kode is given to run: so that
    all depends on what it does, and nothing on how it reads."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of one line."""

    line: str
    effects: tuple[str, ...]
    output: str
    """What the model was sent, cut."""


def run(job: Job, *, timeout_s: float) -> list[Tried]:
    """Runs a job in a jail of its own. Raises: AssertionError when the jail did not hold or kode
    did not play all lines."""
    hidden = [] if job.sandbox == "bubblewrap" else ["--hide", "bwrap"]
    old = ["--no-landlock"] if job.sandbox == "none" else []
    module = "tests.attacks"
    started = subprocess.run(
        [sys.executable, "-m", f"{module}.jail", *hidden, *old, "--",
         sys.executable, "-m", f"{module}.campaign"],
        input=json.dumps(asdict(job)),
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )  # fmt: skip
    rows = [json.loads(row) for row in started.stdout.splitlines() if row.startswith("{")]
    ended = f"exit {started.returncode}: {started.stderr[-3000:]}{started.stdout[-1000:]}"
    assert started.returncode == 0, ended
    assert len(rows) >= len(job.lines), f"{len(rows)} of {len(job.lines)}: {started.stderr[-3000:]}"
    return [Tried(**{**row, "effects": tuple(row["effects"])}) for row in rows]


def main() -> None:
    given = json.loads(sys.stdin.read())
    job = Job(**{**given, "lines": tuple(given["lines"]), "flags": tuple(given["flags"])})
    world = World(job.user)
    world.start()
    with ScriptedServer(port=MODEL_PORT, keep=4) as server:
        for at in range(0, len(job.lines), BATCH):
            _Batch(world, job, server, job.lines[at : at + BATCH]).play()


def _say(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


class _Batch:
    """Some lines in one process of kode."""

    def __init__(self, world: World, job: Job, server: ScriptedServer, lines: Sequence[str]):
        self.world, self.job, self.server = world, job, server
        self.waiting = list(lines)
        self.playing: str | None = None
        self.last: dict[str, Any] = {}
        self.turn = threading.Lock()

    def play(self) -> None:
        while self.waiting or self.playing is not None:
            before = len(self.waiting)
            self.server.play(self.reply)
            code, said = self._run_kode()
            left = self.world.witness.orphans(grace_s=3.0)
            with self.turn:
                if self.playing is not None:  # kode ended with it
                    self._finish(f"kode ended with {code}: {said[-500:]}", left)
                elif left and self.last:
                    _say({**self.last, "effects": left})
            if len(self.waiting) == before and self.waiting:
                raise RuntimeError(f"kode played nothing: exit {code}: {said[-2000:]}")

    def _run_kode(self) -> tuple[int, str]:
        words = [str(Path(sys.prefix) / "bin/kode"), "run", "work", "--no-memory", "--quiet"]
        words += ["--model", "gpt-4.1", "--permission-mode", self.job.mode, "--max-steps", "200"]
        words += self.job.flags
        inherited = os.open("/srv/outside/file", os.O_RDWR)
        with self.world.popen(
            words,
            cwd=self.world.project,
            env={
                **self.world.environment,
                "OPENAI_API_KEY": "sk-attack-0123456789abcdef0123",
                "OPENAI_BASE_URL": f"http://127.0.0.1:{MODEL_PORT}/v1",
                "DEPLOY_NOTE": canary("kodeenv"),
                "SSH_AUTH_SOCK": f"{self.world.home}/.gnupg/S.gpg-agent",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(inherited,),
            start_new_session=True,
        ) as kode:
            os.close(inherited)
            try:
                out, _ = kode.communicate(timeout=BATCH_S)
            except subprocess.TimeoutExpired:
                os.killpg(kode.pid, signal.SIGKILL)
                out, _ = kode.communicate()
        return kode.returncode, out.decode(errors="replace")

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Looks at what the last line did, and gives the next."""
        with self.turn:
            if self.playing is not None:
                self._finish(_since_the_last_call(request), [])
            if not self.waiting:
                return {"text": "done"}
            command = self.playing = self.waiting.pop(0)
            if self.job.in_script:
                (self.world.project / SCRIPT).write_text(command)
                self.world.files.keep(str(self.world.project / SCRIPT))
                command = f"bash {SCRIPT}"
            arguments = {"command": command, "timeout_s": LINE_S}
            return {"calls": [{"name": "shell", "arguments": arguments}]}

    def _finish(self, output: str, more: list[str]) -> None:
        effects = [*self.world.effects(self.job.mode, output), *more, *self._misdirected()]
        self.world.restore()
        self.last = {"line": self.playing, "output": output[-MAX_OUTPUT_CHARS:]}
        _say({**self.last, "effects": effects})
        self.playing = None

    def _misdirected(self) -> list[str]:
        asked = [*self.server.requests, *self.server.questions]
        paths = [one.path for one in asked if one.path not in _OF_KODE]
        self.server.requests.clear()
        self.server.questions.clear()
        return [f"asked the model's server for {path}" for path in paths]


_OF_KODE = frozenset(
    "/v1/chat/completions /v1/models /props /api/v0/models /api/ps /api/generate /api/show".split()
)
"""What kode itself asks a model's server for."""


def _since_the_last_call(request: dict[str, Any]) -> str:
    parts: list[str] = []
    for message in reversed(request.get("messages", [])):
        if message.get("role") == "assistant":
            break
        content = message.get("content") or ""
        parts.append(content if isinstance(content, str) else json.dumps(content))
    return "\n".join(parts)


if __name__ == "__main__":
    main()
