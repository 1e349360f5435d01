"""A home in which each format has a file, made by kode itself where a command makes it, and what
each file holds, as values."""

import asyncio
import contextlib
import json
import math
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from kode import paths
from kode.config.load import load_config
from kode.conversation import Settings, open_conversation
from kode.errors import KodeError
from kode.events import no_emit
from kode.extensions import trust
from kode.extensions.mcp_login import _Tokens, auth
from kode.memory.pending import Pending
from kode.messages import user_message
from kode.permissions import approvals
from kode.permissions.rules import parse
from kode.plugins.fleet import queue as fleet
from kode.plugins.fleet.queue import Finished, Fleet, FleetTask
from kode.session import index, log
from kode.shared_budget import SharedBudget
from kode.undo.store import is_digest
from kode.undo.undo import Undo, open_undo
from tests.faults.lives import call, calls
from tests.faults.place import Place, Run

Values = set[Any]
QUEUE = "20260101-000000-aaaaaa"
SCRIPT = {"match": ".", "text": "Here."}
MEMORY = (
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
SYSTEMS = ("tiered", "vault", "journal", "notes")


def make_home(folder: Path) -> Place:
    place = Place(folder)
    (place.project / ".git").mkdir()
    (place.project / "AGENTS.md").write_text("Use tabs.\n")
    (place.project / "kode.json").write_text(
        '{"max_steps": 20, "permissions": {"deny": ["fetch"]}}\n'
    )
    place.configure(
        {
            "permissions": {"mode": "full", "allow": ["shell(ls:*)"]},
            "prices": {"m": {"input": 1, "output": 4}},
            "memory": {"min_turns_for_extraction": 9},
        }
    )
    _make_sessions(place)
    _make_memory(place)
    rules = (parse("shell(make:*)"), parse("shell(ls:*)"))
    approvals.change(place.home, place.project, partial(approvals.add_rules, rules=rules))
    where = place.project / ".mcp.json"
    item = trust.Candidate(kind="mcp", name="files", origin=where, scope="project", content="run\n")
    trust.approve_items(place.home, place.project, [item])
    _tokens(place)._write(tokens=auth.OAuthToken(access_token="t", token_type="Bearer"))
    (place.home / "history").write_bytes(b"\n# 2026-03-01 12:00:00.000000\n+fix the tests\n")
    with place.streams():
        _make_queue(place)
    place.keep()
    return place


def _make_sessions(place: Place) -> None:
    """Two, of which only the newest has data for undo and a subagent."""
    (place.project / "ships.txt").write_text("none\n")

    def write(path: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
        return [calls(call("write_file", path=path, content=path), *more), {"text": "Wrote it."}]

    look = call("shell", command="echo größer")
    for script in (write("old.txt"), write("ships.txt", call("read_file", path="a"), look)):
        for data in (place.home / "sessions").glob("*/undo"):
            shutil.rmtree(data)
        assert place.call("run", *place.script(script), "write about ships").code == 0
    for name in ("a.txt", "b.txt"):
        assert place.call("continue", *place.script(write(name)), f"write {name}").code == 0
    agent = place.home / "sessions" / session_in(place) / "agents" / "1-abcd"
    agent.mkdir(parents=True)
    (agent / "agent.json").write_text('{"mark": "0123456789abcdef01234567", "call_id": "c1"}')
    (agent / "task.json").write_text('{"goal": "look at the docs", "context": "all"}')
    (agent / "result.json").write_text(
        '{"type":"result","status":"success","summary":"Looked.","error":null,'
        '"files_changed":["a.py"],"tokens_used":5,"steps":1,"parent_session":null}\n'
    )
    (agent / "transcript.jsonl").write_text("{}\n")


def _make_memory(place: Place) -> None:
    for system, *words in MEMORY:
        assert place.call("memory", "--memory", system, "add", *words).code == 0
    for system in SYSTEMS:
        exported = str(place.folder / f"{system}.jsonl")
        place.call("memory", "--memory", system, "export", exported)
    narrative = json.dumps({"narrative": "Did x.", "facts": ["is x"]})
    for system, reply in (
        ("tiered", narrative),
        ("vault", json.dumps([asdict(user_message("hi"))])),
    ):
        pending = Pending(place.home / "memory/pending" / system)
        pending.mark(session_in(place))
        pending.update(session_in(place), answer=reply)
        pending.release(session_in(place))


def _make_queue(place: Place) -> None:
    tasks = tuple(
        FleetTask(id=name, task=f"Do {name}.", source=str(place.project), isolate="none")
        for name in ("a", "b", "c")
    )
    at = "2026-01-01T00:00:00Z"
    queue = fleet.create_queue(
        place.home, Fleet(id=QUEUE, created_at=at, tasks=tasks, trees="/trees", budget_usd=5.0)
    )
    for _ in range(2):
        lease = queue.lease()
        assert lease is not None
        SharedBudget(queue.folder / fleet.SPENT).add(0.5, lease.session)
        end = Finished(task=lease.task, lease=lease.lease, status="success")
        queue.record(end, under=lease)


# ── what files hold ──────────────────────────────────────────────────────────────────────────


def session_in(place: Place) -> str:
    """The session that has data for undo."""
    (folder,) = (place.home / "sessions").glob("*/undo")
    return folder.parent.name


def read_sessions(place: Place) -> Values:
    return {
        (id, entry.id, entry.type)
        for _, id in index.files(place.home)
        for entry in log.read(log.session_path(place.home, id))[1]
    }


def _undo(place: Place) -> Undo:
    return open_undo(paths.undo_folder(paths.session_folder(place.home, session_in(place))))


def read_changes(place: Place) -> Values:
    return {(step.turn, path) for step in _undo(place).history().steps for path in step.before}


def read_contents(place: Place) -> Values:
    contents = _undo(place).contents
    names = [path.name for path in contents.folder.iterdir()]
    return {name for name in names if is_digest(name) and contents.read_saved(name)}


def read_order(place: Place) -> Values:
    return set(enumerate(summary.id for summary in index.list_sessions(place.home)))


def read_approvals(place: Place) -> Values:
    return {approval.rule for approval in approvals.load_approvals(place.home, place.project)[0]}


def read_trust(place: Place) -> Values:
    return set(map(repr, trust.load(place.home, place.project).items))


def _tokens(place: Place) -> _Tokens:
    return _Tokens(place.home / "mcp/tokens.json", "https://example.org")


def read_logins(place: Place) -> Values:
    tokens = _tokens(place)._read("tokens", auth.OAuthToken)
    return {tokens.model_dump_json()} if tokens is not None else set()


def read_queue(place: Place) -> Values:
    with contextlib.suppress(KodeError), place.streams():
        tasks = fleet.open_queue(place.home, QUEUE).state.tasks
        return {*tasks, *((id, task.finished) for id, task in tasks.items() if task.finished)}
    return set()


def read_budget(place: Place) -> Values:
    with place.streams():
        budget = SharedBudget(place.home / "queues" / QUEUE / fleet.SPENT)
        budget.refresh()
        limit = {("limit", budget.limit_usd)} if budget.limit_usd < math.inf else set()
        return limit | set(budget.spent_by.items())


def undo_and_redo(place: Place) -> Run:
    """`/diff`, `/undo` twice, `/redo` and `/diff`, as the prompt does them."""

    async def work() -> str:
        loaded = load_config(place.home, place.project, environ={}, flags={"script": script})
        talk = await open_conversation(
            Settings(loaded, emit=no_emit), cwd=place.project, session_id=session_in(place)
        )
        texts = []
        try:
            texts += [diff.text for diff in talk.diffs()]
            texts += [await talk.undo(), await talk.undo()]
            texts += [await talk.redo(), *(diff.text for diff in talk.diffs())]
        except KodeError as error:
            texts.append(str(error))
        finally:
            await talk.close()
        return "\n".join(texts)

    *_, script = place.script([SCRIPT])
    with place.streams():
        return Run(0, asyncio.run(work()), "")
