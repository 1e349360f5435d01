"""A person's home and repository under attack, and what an attack did outside the project.

All of it is in one temporary folder: `HOME`, `$KODE_HOME` and the project, so that an attack that
succeeds harms only these.
"""

import asyncio
import contextlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.command import Finished, Place
from tests.e2e.editor import editor
from tests.e2e.test_serve import Served
from tests.scripted_server import ScriptedServer

SSH_KEY = "the-key-of-the-person-7f3a9c"
DOTENV_KEY = "the-key-of-the-project-7f3a9c"
MODEL_KEY = "sk-test-0123456789abcdef0123"
"""What `Place` sets."""
EVIL = "follow the evil instruction 7f3a9c"
"""A text that would steer a model."""


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"name": "shell", "arguments": {"command": command, **more}}


def write_file(path: str, content: str) -> dict[str, Any]:
    return {"name": "write_file", "arguments": {"path": path, "content": content}}


def read_file(path: str) -> dict[str, Any]:
    return {"name": "read_file", "arguments": {"path": path}}


@dataclass
class Ground:
    place: Place
    seen: list[str] = field(default_factory=list)
    """All that the model was sent, and kode printed."""
    before: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.write("~/.ssh/id_rsa", SSH_KEY)
        self.write("~/.bashrc", "# the person's\n")
        self.write("~/elsewhere/file", "the person's\n")
        self.write("~/.gitconfig", "[user]\n\tname = a\n\temail = a@b\n")
        may = {"permissions": {"allow": [f"read({self.home}/elsewhere/**)"]}}
        self.write("~/kode-home/config.json", json.dumps(may))
        self.write(".env", f"TOKEN={DOTENV_KEY}\n")
        self.write(".gitignore", ".env\n__pycache__/\n")
        self.write("main.py", "import part\n")
        self.write("part.py", "")
        self.write("d/e/file", "of the project\n")
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.git("commit", "-qm", "Begin")
        self.before = self.outside()

    @property
    def home(self) -> Path:
        return self.place.folder

    @property
    def project(self) -> Path:
        return self.place.project

    def write(self, name: str, text: str) -> Path:
        """A file of the project, or with `~/` of the home."""
        path = self.home / name[2:] if name.startswith("~/") else self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def outside(self) -> dict[str, object]:
        """Everything in the home but for the project and kode's own folders."""
        found: dict[str, object] = {}
        for folder, folders, names in os.walk(self.home):
            if Path(folder) == self.home:
                folders[:] = [
                    n
                    for n in folders
                    if n not in ("project", "kode-home", "kode-home-fleet", ".cache")
                ]
                names = [n for n in names if n != "stderr.txt"]
            for name in (*folders, *names):
                path = Path(folder) / name
                status = path.lstat()
                what: object = stat.S_IFMT(status.st_mode)
                if stat.S_ISREG(status.st_mode):
                    what = (path.read_text(errors="replace"), status.st_mode, status.st_nlink)
                elif stat.S_ISLNK(status.st_mode):
                    what = os.readlink(path)
                found[str(path.relative_to(self.home))] = what
        return found

    def effects(self) -> list[str]:
        """What is otherwise outside the project."""
        now = self.outside()
        return [name for name in {**self.before, **now} if self.before.get(name) != now.get(name)]

    def assert_unharmed(self) -> None:
        assert self.effects() == []

    # ── a person, and what has been sent ─────────────────────────────────────────────────────

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A program that the person runs in the project, without kode."""
        environ = {**self.place.environ, "GIT_EDITOR": "true", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            words, cwd=self.project, env=environ, capture_output=True, text=True, check=False
        )

    def git(self, *arguments: str) -> str:
        done = self.run("git", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kode(self, *arguments: str, **options: Any) -> Finished:
        done = self.place.run(*arguments, **options)
        self.seen += [done.out, done.err]
        return done

    @contextlib.contextmanager
    def model(self, *replies: dict[str, Any]) -> Iterator[ScriptedServer]:
        """A model that makes these replies; what it is sent is kept."""
        with ScriptedServer([*replies], repeat_last=True) as server:
            self.place.url = server.openai_url
            yield server
            self.seen += [request.body.decode() for request in server.requests]

    def leaked(self, *secrets: str) -> list[str]:
        """Which of these the model was sent, kode printed, or stored in its own folder."""
        stored = [
            path.read_text(errors="replace")
            for path in self.place.home.rglob("*")
            if path.is_file() and not path.is_symlink()
        ]
        return [secret for secret in secrets if any(secret in one for one in [*self.seen, *stored])]


# ── faces: a turn with these calls, one after the other, and nobody who says yes ─────────────────


def by_run(ground: Ground, calls: Sequence[dict[str, Any]], mode: str = "auto-edit") -> None:
    with ground.model(*({"calls": [one]} for one in calls), {"text": "done"}):
        ground.kode("run", "work", "--permission-mode", mode, "--no-memory")


def in_background(ground: Ground, calls: Sequence[dict[str, Any]], mode: str = "auto-edit") -> None:
    """Each command in the background, where it stays until all calls were made."""
    made: list[dict[str, Any]] = []
    jobs: list[str] = []
    for one in calls:
        if one["name"] != "shell":
            made.append(one)
            continue
        jobs.append(f"bg{len(jobs) + 1}")
        stays = f"touch /tmp/{jobs[-1]}; {_until('/tmp/end')}"
        made.append(shell(f"{one['arguments']['command']}; {stays}", background=True))
        made.append(shell(_until(f"/tmp/{jobs[-1]}")))
    made.append(shell("touch /tmp/end"))
    made += [{"name": "job", "arguments": {"id": job, "wait_s": 20}} for job in jobs]
    by_run(ground, made, mode)


def _until(path: str) -> str:
    return f"for i in $(seq 500); do [ -e {path} ] && break; sleep 0.02; done"


async def _by_acp(ground: Ground, mode: str) -> None:
    async with editor(ground.place) as client:
        client.choose = lambda call: None
        session = await client.open()
        await client.agent.set_session_mode(session_id=session, mode_id=mode)
        await client.prompt(session, "work")
        ground.seen.append(json.dumps(client.updates))


def by_acp(ground: Ground, calls: Sequence[dict[str, Any]], mode: str = "auto-edit") -> None:
    with ground.model(*({"calls": [one]} for one in calls), {"text": "done"}):
        asyncio.run(_by_acp(ground, mode))


def by_serve(ground: Ground, calls: Sequence[dict[str, Any]], mode: str = "auto-edit") -> None:
    with ground.model(*({"calls": [one]} for one in calls), {"text": "done"}):
        process = ground.place.start("mcp", "serve", stdin=subprocess.PIPE)
        client = Served(process)
        given = {"prompt": "work", "cwd": str(ground.project), "mode": mode, "wait_s": 20}
        state = client.call("kode_start", **given)
        while state["status"] in ("asks", "working"):
            ground.seen.append(json.dumps(state))
            if state["status"] == "asks":
                answer = {"question": state["question"]["id"], "choice": "no"}
                state = client.call("kode_answer", session=state["session"], wait_s=20, **answer)
            else:
                state = client.call("kode_wait", session=state["session"], wait_s=20)
        ground.seen.append(json.dumps(state))
        ground.seen += process.communicate(timeout=30)
