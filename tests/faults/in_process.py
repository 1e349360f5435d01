"""kode's commands in this very process: as installed, but without a start of a process each time,
so that hundreds of damaged files can be tried. And a home with a file of every format in it.
"""

import asyncio
import contextlib
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from kode.cli.main import main
from kode.config.load import load_config
from kode.conversation import Settings, open_conversation
from kode.errors import KodeError
from kode.events import silent
from kode.memory.pending import Pending
from kode.messages import user_message
from kode.permissions import approvals
from kode.permissions.rules import parse

FAULT = re.compile(
    r"an internal error in kode|Traceback|\b(Type|Attribute|Key|Index|Value|Recursion|Overflow|"
    r"Unicode\w+|Assertion|Runtime|Validation|OS|\w*Decode|NotADirectory|IsADirectory)Error\b"
)
"""What no reader should ever see, whatever a file holds."""


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        return self.out + self.err


@dataclass(frozen=True)
class Here:
    """A folder with a project and a home."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def home(self) -> Path:
        return self.folder / "kode-home"

    @property
    def session(self) -> str:
        return min(path.name for path in (self.home / "sessions").glob("*.jsonl"))[:-6]

    @property
    def kept(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-kept")

    def keep(self) -> None:
        """Remembers everything as it is now, for `restore`."""
        shutil.copytree(self.folder, self.kept, symlinks=True)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder, symlinks=True)

    def script(self, *replies: dict[str, Any]) -> str:
        path = self.folder / "script.json"
        path.write_text(json.dumps(list(replies)))
        return str(path)

    def kode(self, *argv: str) -> Finished:
        """Runs one command; streams are as strict as those of a process."""
        with self.streams() as (out, err):
            code = main(argv)
            sys.stdout.flush()
            sys.stderr.flush()
            return Finished(code, out.getvalue().decode(), err.getvalue().decode())

    @contextlib.contextmanager
    def streams(self) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
        out, err = io.BytesIO(), io.BytesIO()
        environ = {"KODE_HOME": str(self.home), "HOME": str(self.folder)}
        with (
            mock.patch.dict("os.environ", environ),
            mock.patch("sys.stdin", None),
            contextlib.chdir(self.project),
            contextlib.redirect_stdout(io.TextIOWrapper(out, "utf-8")),
            contextlib.redirect_stderr(io.TextIOWrapper(err, "utf-8", "backslashreplace")),
        ):
            yield out, err

    def task(self, *argv: str) -> Finished:
        """`run` or `continue` with a task; the model says one sentence."""
        script = self.script({"match": ".", "text": "Here."})
        return self.kode(*argv, "--script", script)

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


def made(folder: Path) -> Here:
    """A home in which each format has a file, made by kode itself where a command makes it."""
    here = Here(folder)
    here.project.mkdir(parents=True)
    here.home.mkdir(mode=0o700)
    (here.project / ".git").mkdir()
    (here.project / "AGENTS.md").write_text("Use tabs.\n")
    (here.project / "kode.json").write_text(
        '{"max_steps": 20, "permissions": {"deny": ["fetch"]}}\n'
    )
    config = {
        "permissions": {"mode": "full", "allow": ["shell(ls:*)"]},
        "prices": {"m": {"input": 1, "output": 4}},
        "memory": {"min_turns_for_extraction": 9},
    }
    (here.home / "config.json").write_text(json.dumps(config, indent=1))
    _session(here)
    for system, *words in ADDED:
        done = here.kode("memory", "--memory", system, "add", *words)
        assert done.code == 0, done.told
    for system in ("tiered", "vault", "journal", "notes"):
        here.kode("memory", "--memory", system, "export", str(here.folder / f"{system}.jsonl"))
    _pending(here, "tiered", json.dumps({"narrative": "Did x.", "facts": ["is x"]}))
    _pending(here, "vault", json.dumps([asdict(user_message("hi"))]))
    give = partial(approvals.add_rules, rules=(parse("shell(make:*)"),))
    approvals.change(here.home, here.project, give)
    (here.home / "history").write_bytes(b"\n# 2026-03-01 12:00:00.000000\n+fix the tests\n")
    here.keep()
    return here


def _session(here: Here) -> None:
    (here.project / "ships.txt").write_text("none\n")
    script = here.script(
        {"calls": [{"name": "read_file", "arguments": {"path": "ships.txt"}}]},
        {
            "text": "I write it.",
            "calls": [
                {"name": "write_file", "arguments": {"path": "ships.txt", "content": "one\n"}},
                {"name": "shell", "arguments": {"command": "echo größer"}},
            ],
        },
        {"text": "Written."},
    )
    done = here.kode("run", "--script", script, "write about ships")
    assert done.code == 0, done.told
    agent = here.home / "sessions" / here.session / "agents" / "1-abcd"
    agent.mkdir(parents=True)
    (agent / "agent.json").write_text('{"mark": "0123456789abcdef01234567", "call_id": "c1"}')
    (agent / "task.json").write_text('{"goal": "look at the docs", "context": "all"}')
    (agent / "result.json").write_text(
        '{"type":"result","status":"success","summary":"Looked.","error":null,'
        '"files_changed":["a.py"],"tokens_used":5,"steps":1,"parent_session":null}\n'
    )
    (agent / "transcript.jsonl").write_text("{}\n")


ADDED = (
    ("tiered", "user", "Likes short answers"),
    ("tiered", "env", "Python is 3.11 — größer"),
    ("tiered", "env", "Tests run with pytest, also the uploader's"),
    ("vault", "tools", "uses make"),
    ("vault", "episodes", "Did it."),
    ("journal", "memory", "likes spaces"),
    ("journal", "history", "Did it."),
    ("notes", "rule", "Prefers tabs"),
)
"""The system, the place and the text of what memory holds."""


def _pending(here: Here, system: str, answer: str) -> None:
    """Leaves a session for a later start, with the answer of a model about it."""
    pending = Pending(here.home / "memory/pending" / system)
    pending.mark(here.session)
    pending.update(here.session, answer=answer)
    pending.leave(here.session)


def undone_and_diffed(here: Here, session_id: str | None = None) -> Finished:
    """`/diff`, `/undo`, `/undo` again, `/redo`, as the prompt does them."""

    async def work() -> str:
        loaded = load_config(here.home, here.project, environ={}, flags={"script": script})
        conversation = await open_conversation(
            Settings(loaded, emit=silent), cwd=here.project, session_id=session_id or here.session
        )
        texts = []
        try:
            past = conversation
            texts += [one.text for one in past.diffs()]
            texts += [await past.undo(), await past.undo()]
            texts += [await past.redo(), *(one.text for one in past.diffs())]
        except KodeError as error:
            texts.append(str(error))
        finally:
            await conversation.close()
        return "\n".join(texts)

    script = here.script({"match": ".", "text": "Here."})
    with here.streams():
        text = asyncio.run(work())
    return Finished(0, text, "")
