"""Every file that kode keeps for itself, cut, flipped and doubled at 20 places: a loss is told in a
sentence that names the file, nothing false is read, and nothing else is lost.

What a person writes by hand (the config, a plan, the prompt's history) has no checksum, and memory
has tests of its own.
"""

import contextlib
import json
import math
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kode import images, paths
from kode.errors import KodeError
from kode.extensions import trust
from kode.extensions.mcp_transports import OAuthToken, _Tokens
from kode.permissions import approvals
from kode.permissions.rules import parse
from kode.plugins.fleet import queue as fleet
from kode.plugins.fleet.records import Finished as Ended
from kode.plugins.fleet.records import Fleet, Task
from kode.session import index, log
from kode.shared_budget import SharedBudget
from kode.undo.store import is_digest
from kode.undo.undo import Undo, open_undo
from tests.faults.in_process import FAULT, Finished, Here, undone_and_diffed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PLACES = 20
QUEUE = "20260101-000000-aaaaaa"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\2" + bytes(40)

Read = Callable[[Here], set[Any]]
Command = Callable[[Here], Finished]


# ── a home ───────────────────────────────────────────────────────────────────────────────────


def make_home(folder: Path) -> Here:
    here = Here(folder)
    here.project.mkdir(parents=True)
    here.home.mkdir(mode=0o700)
    (here.project / ".git").mkdir()
    (here.home / "config.json").write_text('{"permissions": {"mode": "full"}}')
    for first in ("one", "two"):
        write = [{"name": "write_file", "arguments": {"path": "ships.txt", "content": first}}]
        script = here.script({"calls": write}, {"text": f"Wrote {first}."})
        # Only the newest has data for undo: the names of two may differ in chance alone.
        for folder in (here.home / "sessions").glob("*/undo"):
            shutil.rmtree(folder)
        assert here.kode("run", "--script", script, f"write {first}").code == 0
    for name in ("a.txt", "b.txt"):
        write = [{"name": "write_file", "arguments": {"path": name, "content": name}}]
        script = here.script({"calls": write}, {"text": "Wrote it."})
        assert here.kode("continue", "--script", script, f"write {name}").code == 0
    give = partial(approvals.add_rules, rules=(parse("shell(make:*)"), parse("shell(ls:*)")))
    approvals.change(here.home, here.project, give)
    where = here.project / ".mcp.json"
    item = trust.Item(kind="mcp", name="files", origin=where, scope="project", content="run\n")
    trust.approve(here.home, here.project, [item])
    tokens = _Tokens(here.home / "mcp" / "tokens.json", "https://example.org", None)
    tokens._write("tokens", OAuthToken(access_token="t", token_type="Bearer"))
    images.keep(here.home / "pictures", "a.png", PNG)
    with here.streams():
        _make_fleet(here)
    here.keep()
    return here


def _make_fleet(here: Here) -> None:
    tasks = [
        Task(id=name, task=f"Do {name}.", source=str(here.project), isolate="none")
        for name in ("a", "b", "c")
    ]
    about = Fleet(
        id=QUEUE,
        created_at="2026-01-01T00:00:00Z",
        tasks=tuple(tasks),
        trees="/trees",
        budget_usd=5.0,
    )
    queue = fleet.create(here.home, about)
    for _ in range(2):
        lease = queue.lease()
        assert lease is not None
        SharedBudget(queue.folder / fleet.SPENT).add(0.5, lease.session)
        end = Ended(task=lease.task, lease=lease.lease, status="success")
        queue.record(end, under=lease)


# ── what is read ─────────────────────────────────────────────────────────────────────────────


def sessions(here: Here) -> set[Any]:
    return {
        (id, entry.id, entry.type)
        for _, id in index.files(here.home)
        for entry in entries(here, id)
    }


def entries(here: Here, session_id: str) -> list[Any]:
    return log.read(log.session_path(here.home, session_id))[1]


def undo_data(here: Here) -> Undo:
    return open_undo(paths.undo_folder(paths.session_folder(here.home, newest(here))))


def newest(here: Here) -> str:
    (folder,) = (here.home / "sessions").glob("*/undo")
    return folder.parent.name


def changes(here: Here) -> set[Any]:
    steps = undo_data(here).history().steps
    return {(step.turn, path) for step in steps for path in step.before}


def contents(here: Here) -> set[Any]:
    kept = undo_data(here).contents
    return {
        one.name for one in kept.folder.iterdir() if is_digest(one.name) and kept.data(one.name)
    }


def order_of_use(here: Here) -> set[Any]:
    return set(enumerate(one.id for one in index.list_sessions(here.home)))


def approved(here: Here) -> set[Any]:
    return {one.rule for one in approvals.load(here.home, here.project)[0]}


def trusted(here: Here) -> set[Any]:
    return set(trust.load(here.home, here.project).items)


def logins(here: Here) -> set[Any]:
    document = _Tokens(here.home / "mcp/tokens.json", "https://example.org", None)._document()
    return {json.dumps(document.get(key)) for key in ("tokens", "url")} - {"null"}


def ended(here: Here) -> set[Any]:
    with contextlib.suppress(KodeError), here.streams():
        queue = fleet.open_queue(here.home, QUEUE)
        tasks = queue.state.tasks
        return {*tasks, *((id, one.finished) for id, one in tasks.items() if one.finished)}
    return set()


def spent(here: Here) -> set[Any]:
    with here.streams():
        budget = SharedBudget(here.home / "queues" / QUEUE / fleet.SPENT)
        budget.refresh()
        limit = {("limit", budget.limit_usd)} if budget.limit_usd < math.inf else set()
        return limit | set(budget.spent_by.items())


def pictures(here: Here) -> set[Any]:
    (path,) = (here.home / "pictures").glob("*.png")
    kept = images.Image(
        name="a.png",
        media_type="image/png",
        width=2,
        height=2,
        size_bytes=len(PNG),
        kept_in=str(path),
    )
    return {images.bytes_of(kept)} - {None}


# ── the table ────────────────────────────────────────────────────────────────────────────────


def kode(*words: str) -> Command:
    return lambda here: here.kode(*words)


def task(*words: str) -> Command:
    return lambda here: here.task(*words)


def asks(here: Here) -> Finished:
    write = {"name": "write_file", "arguments": {"path": "x.txt", "content": "x"}}
    script = here.script({"calls": [write]}, {"text": "Well."})
    return here.kode("run", "--permission-mode", "ask", "--script", script, "write")


def status(here: Here) -> Finished:
    return here.kode("fleet", "status", QUEUE)


def undo(here: Here) -> Finished:
    """The undo of the newest session, which `Here.session` is not."""
    return undone_and_diffed(here, newest(here))


@dataclass(frozen=True)
class Kind:
    """One kind of file, and who reads it."""

    glob: str
    """Below the home."""
    read: Read
    """What it holds, as values."""
    commands: tuple[Command, ...] = ()
    names: Callable[[Path], str] = lambda path: path.name
    """What the sentence about a loss names."""
    read_first: bool = True
    """Whether reading it by itself sets nothing aside."""


CHECK = kode("session", "check")
KINDS = {
    "session": Kind(
        "sessions/*.jsonl", sessions, (CHECK, task("continue", "more")), lambda path: path.stem
    ),
    "undo log": Kind("sessions/*/undo/journal.jsonl", changes, (CHECK, undo), lambda _: "record"),
    "undo content": Kind("sessions/*/undo/contents/" + "[0-9a-f]" * 64, contents, (CHECK, undo)),
    "order": Kind("sessions/order", order_of_use, (task("continue", "more"),)),
    "approvals": Kind("permissions/*.json", approved, (asks,), read_first=False),
    "trust": Kind("trust/*.json", trusted, (task("run", "look"),), read_first=False),
    "login": Kind("mcp/tokens.json", logins, read_first=False),
    "queue": Kind("queues/*/fleet.json", ended, (status,)),
    "fleet log": Kind("queues/*/log.jsonl", ended, (status,)),
    "budget": Kind("queues/*/spent.jsonl", spent, (status,)),
    "picture": Kind("pictures/*.png", pictures, names=lambda _: ""),  # the model is told
    "note of a length": Kind("sessions/*.end", sessions, (CHECK, task("continue", "more"))),
}


@dataclass(frozen=True)
class Damage:
    how: str
    data: bytes


def damages(data: bytes, seed: str) -> Iterator[Damage]:
    """A file cut and flipped anywhere, cut at the ends of lines, and with its lines doubled."""
    drawn = random.Random(seed)
    feeds = [at + 1 for at, byte in enumerate(data) if byte == 10][:-1]
    for number in range(PLACES):
        at = drawn.randrange(len(data))
        match number % 4:
            case 0:
                yield Damage(f"cut at {at}", data[:at])
            case 1:
                bit = 1 << drawn.randrange(8)
                flipped = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
                yield Damage(f"flipped at {at}", flipped)
            case 2:
                end = feeds.pop(drawn.randrange(len(feeds))) if feeds else 0
                yield Damage(f"cut at the line's end {end}", data[:end])
            case _:
                lines = data.splitlines(keepends=True)
                line = drawn.randrange(len(lines))
                yield Damage(f"line {line} doubled", b"".join([*lines[: line + 1], *lines[line:]]))
    yield Damage("doubled", data * 2)
    yield Damage("emptied", b"")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("rest") / "place"
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("KODE_", "OPENAI_", "ANTHROPIC_")):
                patch.delenv(name)
        yield make_home(folder)
    shutil.rmtree(folder.parent, ignore_errors=True)


@pytest.mark.parametrize("name", KINDS)
def test_damage_at_rest_is_named_and_costs_nothing_else(here: Here, name: str) -> None:
    kind = KINDS[name]
    faults = []
    here.restore()
    path = max(here.home.glob(kind.glob))
    whole = kind.read(here)
    others = rest(here, path)
    for damage in damages(path.read_bytes(), name):
        here.restore()
        path.write_bytes(damage.data)
        faults += [f"{damage.how}: {fault}" for fault in found(here, kind, path, whole, others)]
    assert faults == [], "\n".join(faults)


def found(here: Here, kind: Kind, path: Path, whole: set[Any], others: set[Any]) -> Iterator[str]:
    before = kind.read(here) if kind.read_first else set()
    done = [command(here) for command in kind.commands]
    told = "".join(one.told for one in done)
    left = before if kind.read_first else kind.read(here)
    aside = "".join(one.name for one in path.parent.glob("*.damaged-*"))
    if left - whole:
        yield f"reads {left - whole}"
    if whole - left and kind.names(path) not in (told if kind.commands else aside):
        yield f"{len(whole - left)} of {len(whole)} lost, and told: {told[-600:]!r}"
    if FAULT.search(told):
        yield told[-600:]
    yield from (f"ended with {one}" for one in done if one.code not in (0, 1, 3))
    if others - rest(here, path):
        yield f"lost {others - rest(here, path)}"


def rest(here: Here, damaged: Path) -> set[Any]:
    """What all other files hold; the order of use changes with every task."""
    reads = {kind.read for kind in KINDS.values()} - {order_of_use}
    reads -= {kind.read for kind in KINDS.values() if damaged in set(here.home.glob(kind.glob))}
    return {(read.__name__, one) for read in reads for one in read(here)}
