"""Each file that kode reads, damaged in every way, and the commands that read it: no traceback, the
damage is named and its bytes are kept, nothing false is read, and nothing else is lost.
"""

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.effort import EVERYTHING
from tests.faults import home
from tests.faults.damage import damaged, limit_examples
from tests.faults.home import QUEUE, SCRIPT, SYSTEMS, Values, make_home, session_in, undo_and_redo
from tests.faults.lives import call, calls
from tests.faults.place import Place, Run

pytestmark = pytest.mark.timeout(1800 if EVERYTHING else 600)
EXAMPLES = limit_examples(100, 7)
BYTE_FAULTS = 20
"""Of each file, beside two that concern the whole of it."""
FAULT = re.compile(
    r"an internal error in kode|Traceback|\b(Type|Attribute|Key|Index|Value|Recursion|Overflow|"
    r"Unicode\w+|Assertion|Runtime|Validation|OS|\w*Decode|NotADirectory|IsADirectory)Error\b"
)
"""What no reader should ever see, whatever a file holds."""

Command = Callable[[Place], Run]


def kode(*words: str) -> Command:
    """A command; SESSION stands for the id of the session, FOLDER for where the home is."""

    def run(place: Place) -> Run:
        values = {"SESSION": session_in(place), "FOLDER": str(place.folder)}
        return place.call(*(re.sub("SESSION|FOLDER", lambda m: values[m[0]], w) for w in words))

    return run


def task(*words: str) -> Command:
    """A task, to which the model says one word."""
    return lambda place: kode(*words[:-1], *place.script([SCRIPT]), words[-1])(place)


def ask(place: Place) -> Run:
    """A task for which approvals are read."""
    writes = calls(call("write_file", path="x.txt", content="x"))
    script = place.script([writes, {"text": "Well."}])
    return place.call("run", "--permission-mode", "ask", *script, "write")


@dataclass(frozen=True)
class Format:
    name: str
    glob: str
    """Below the folder that has the home and the project."""
    commands: tuple[Command, ...] = ()
    keeps: bool = True
    """Whether all that was found must still be somewhere afterwards: not of a cache, nor of what
    could be read after all and was used up."""
    read: Callable[[Place], Values] | None = None
    """What it holds; None where a person writes it, or memory, which has tests of its own."""
    names: Callable[[Path], str] = lambda path: path.name
    """What the sentence about a loss names."""
    read_first: bool = True
    """Whether reading it by itself sets nothing aside."""

    def file(self, place: Place) -> Path:
        return max(place.folder.glob(self.glob))


def memory(system: str) -> tuple[Command, ...]:
    def of(*words: str) -> Command:
        return kode("memory", "--memory", system, *words)

    return (
        of("show"),
        of("status"),
        of("search", "uploader", "tabs"),
        of("log"),
        of("export"),
        of("approve"),
        task("run", "--memory", system, "the uploader and its tabs"),
        of("undo"),
        of("show"),
    )


def take_in(system: str) -> tuple[Command, ...]:
    file = f"FOLDER/{system}.jsonl"
    steps = (("import", file), ("approve", "--all", "--yes"), ("import", "--mine", file), ("log",))
    return tuple(kode("memory", "--memory", system, *words) for words in steps)


SESSION = (
    kode("session", "list"),
    kode("session", "list", "--json"),
    kode("session", "show", "SESSION"),
    kode("session", "show", "SESSION", "--json"),
    kode("session", "export", "SESSION", "--format", "markdown"),
    kode("session", "check"),
    kode("session", "fork", "SESSION"),
    task("continue", "--id", "SESSION", "and now?"),
    kode("session", "check", "--repair"),
    kode("session", "trim", "SESSION", "1"),
    task("continue", "and then?"),
    kode("session", "cleanup", "10000"),
)
CHECK = kode("session", "check")
CONTINUE = task("continue", "more")
TASK = (task("run", "look at it"),)
TIERED = memory("tiered")
STATUS = (kode("fleet", "status", QUEUE),)
SESSIONS = "kode-home/sessions"
QUEUES = "kode-home/queues/*"
AGENT_FILES = ("agent.json", "task.json", "result.json", "transcript.jsonl")

FORMATS = (
    Format(
        "session", f"{SESSIONS}/*.jsonl", SESSION, read=home.read_sessions, names=lambda p: p.stem
    ),
    Format(
        "length of a session", f"{SESSIONS}/*.end", (CHECK, CONTINUE), False, home.read_sessions
    ),
    Format("order of sessions", f"{SESSIONS}/order", (CONTINUE,), False, home.read_order),
    Format(
        "undo journal",
        f"{SESSIONS}/*/undo/journal.jsonl",
        (CHECK, undo_and_redo, CONTINUE),
        read=home.read_changes,
        names=lambda _: "record",
    ),
    Format(
        "undo content",
        f"{SESSIONS}/*/undo/contents/{'[0-9a-f]' * 64}",
        (CHECK, undo_and_redo),
        False,
        home.read_contents,
    ),
    *(
        Format(f"subagent's {name}", f"{SESSIONS}/*/agents/*/{name}", (SESSION[2], CONTINUE))
        for name in AGENT_FILES
    ),
    Format(
        "approvals",
        "kode-home/permissions/*.json",
        (ask,),
        read=home.read_approvals,
        read_first=False,
    ),
    Format("trust", "kode-home/trust/*.json", TASK, read=home.read_trust, read_first=False),
    Format("login", "kode-home/mcp/tokens.json", read=home.read_logins, read_first=False),
    Format("queue", f"{QUEUES}/fleet.json", STATUS, read=home.read_queue),
    Format("log of a queue", f"{QUEUES}/log.jsonl", STATUS, read=home.read_queue),
    Format("budget", f"{QUEUES}/spent.jsonl", STATUS, read=home.read_budget),
    Format(
        "config", "kode-home/config.json", (kode("config", "show"), kode("config", "check"), *TASK)
    ),
    Format(
        "project's config", "project/kode.json", (kode("config", "show"), kode("doctor"), *TASK)
    ),
    Format("AGENTS.md", "project/AGENTS.md", TASK),
    Format(
        "facts", "kode-home/memory/facts/user.md", (*TIERED, kode("memory", "add", "user", "New"))
    ),
    Format("log of memory", "kode-home/memory/history.jsonl", (*TIERED, *memory("notes"))),
    Format("note", "kode-home/memory/episodes/*.md", TIERED),
    Format("vault's facts", "kode-home/memory/vault/*/facts/tools.md", memory("vault")),
    Format("vault's episodes", "kode-home/memory/vault/*/episodes/*.md", memory("vault")),
    Format("journal's memory", "kode-home/memory/journal/*/MEMORY.md", memory("journal")),
    Format("journal's history", "kode-home/memory/journal/*/HISTORY.md", memory("journal")),
    *(
        Format(
            f"answer for {system}",
            f"kode-home/memory/pending/{system}/*.json",
            memory(system),
            False,
        )
        for system in ("tiered", "vault")
    ),
    *(Format(f"export of {system}", f"{system}.jsonl", take_in(system)) for system in SYSTEMS),
)
READ = [form for form in FORMATS if form.read]
RUN = [form for form in FORMATS if form.commands]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("damage") / "place"
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("KODE_", "OPENAI_", "ANTHROPIC_")):
                patch.delenv(name)
        yield make_home(folder)
    shutil.rmtree(folder.parent, ignore_errors=True)


# ── any content ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(of=2)
@pytest.mark.parametrize("form", RUN, ids=lambda form: form.name)
@EXAMPLES
@given(data=st.data())
def test_no_file_content_breaks_a_command_or_loses_data(
    place: Place, form: Format, data: st.DataObject
) -> None:
    place.restore()
    path = form.file(place)
    content = data.draw(damaged(path.read_bytes()), label=form.name)
    path.write_bytes(content)

    for number, command in enumerate(form.commands):
        run = command(place)

        fault = FAULT.search(run.out + run.err)
        assert fault is None, f"command {number}: {run}\n{place.report}"
        assert run.code in (0, 1, 3), f"command {number}: {run}"

    if form.keeps:
        files = [path for path in place.folder.rglob("*") if path.is_file()]
        kept = b"\n".join(path.read_bytes() for path in files)
        lines = lines_of(content)
        assert [line for line in lines if line not in kept and in_json(line) not in kept] == []


def lines_of(data: bytes) -> list[bytes]:
    """Without what surrounds a text, marks of byte order, white space, a NUL; and without what
    kode words in memory's files."""
    lines = re.split(rb"[\r\n]+", data.removeprefix(b"\xef\xbb\xbf"))
    bare = (line.strip(b" \t\v\f\x1c\x1d\x1e\x1f") for line in lines)
    return [line for line in bare if line and not WORDED.match(line)]


WORDED = re.compile(
    rb"> Summary:|# Tools Facts$|# [\d-]+ Episodes$|(turns|\w+_at|session_id|project): "
)


def in_json(line: bytes) -> bytes:
    """As the history of memory has it, which keeps what was there before a change."""
    return json.dumps(line.decode(errors="replace"), ensure_ascii=False)[1:-1].encode()


# ── faults of a disk at rest ─────────────────────────────────────────────────────────────────


def byte_faults(data: bytes, seed: str) -> Iterator[tuple[str, bytes]]:
    """A file cut and flipped anywhere, cut at the ends of lines, and with its lines doubled."""
    dice = random.Random(seed)
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10][:-1]
    lines = data.splitlines(keepends=True)
    for number in range(BYTE_FAULTS):
        at = dice.randrange(len(data))
        match number % 4:
            case 0:
                yield f"cut at {at}", data[:at]
            case 1:
                flipped = data[at] ^ (1 << dice.randrange(8))
                yield f"flipped at {at}", data[:at] + bytes([flipped]) + data[at + 1 :]
            case 2:
                end = ends.pop(dice.randrange(len(ends))) if ends else 0
                yield f"cut at the line's end {end}", data[:end]
            case _:
                line = dice.randrange(len(lines))
                yield f"line {line} doubled", b"".join([*lines[: line + 1], *lines[line:]])
    yield "doubled", data * 2
    yield "emptied", b""


@pytest.mark.parametrize("form", READ, ids=lambda form: form.name)
def test_damage_at_rest_is_named_and_costs_nothing_else(place: Place, form: Format) -> None:
    faults = []
    place.restore()
    path = form.file(place)
    assert form.read is not None
    whole, others = form.read(place), read_others(place, path)
    for how, data in byte_faults(path.read_bytes(), form.name):
        place.restore()
        path.write_bytes(data)
        faults += [f"{how}: {fault}" for fault in find_faults(place, form, path, whole, others)]
    assert faults == [], "\n".join(faults)


def find_faults(
    place: Place, form: Format, path: Path, whole: Values, others: Values
) -> Iterator[str]:
    assert form.read is not None
    before = form.read(place) if form.read_first else set()
    runs = [command(place) for command in form.commands]
    told = "".join(run.out + run.err for run in runs)
    left = before if form.read_first else form.read(place)
    aside = "".join(file.name for file in path.parent.glob("*.damaged-*"))
    if left - whole:
        yield f"reads {left - whole}"
    if whole - left and form.names(path) not in (told if form.commands else aside):
        yield f"{len(whole - left)} of {len(whole)} lost, and told: {told[-600:]!r}"
    if FAULT.search(told):
        yield told[-600:]
    yield from (f"ended with {run}" for run in runs if run.code not in (0, 1, 3))
    if others - read_others(place, path):
        yield f"lost {others - read_others(place, path)}"


def read_others(place: Place, damaged: Path) -> Values:
    """What all other files hold; the order of use changes with every task."""
    of_damaged = {form.read for form in READ if damaged in set(place.folder.glob(form.glob))}
    reads = {form.read for form in READ if form.read} - of_damaged - {home.read_order}
    return {(read.__name__, value) for read in reads for value in read(place)}
