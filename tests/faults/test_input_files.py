"""Any bytes in, no traceback out: each file that kode reads, damaged in every way, and the commands
that read it. What is damaged is told and never lost; the rest is used.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.effort import EVERYTHING
from tests.faults.damage import damaged
from tests.faults.in_process import FAULT, Finished, Here, made, undone_and_diffed

pytestmark = [pytest.mark.timeout(1800 if EVERYTHING else 600), pytest.mark.sampled(of=2)]
EXAMPLES = settings(
    max_examples=100 if EVERYTHING else 7,
    deadline=None,
    derandomize=not EVERYTHING,
    database=None,
    phases=(Phase.generate,),  # what is found can be read as it is; shrinking takes minutes
    suppress_health_check=list(HealthCheck),
)

Command = Callable[[Here], Finished]


def kode(*words: str) -> Command:
    """A command; SESSION stands for the id of the session, FOLDER for where the home is."""

    def run(here: Here) -> Finished:
        at = {"SESSION": here.session, "FOLDER": str(here.folder)}
        return here.kode(*(re.sub("SESSION|FOLDER", lambda m: at[m[0]], word) for word in words))

    return run


def task(*words: str) -> Command:
    def run(here: Here) -> Finished:
        return here.task(*(word.replace("SESSION", here.session) for word in words))

    return run


def never(found: bytes) -> bool:
    return False


@dataclass(frozen=True)
class Format:
    name: str
    glob: str
    """Below the folder that has the home and the project."""
    commands: tuple[Command, ...]
    keeps: Callable[[bytes], bool] = lambda found: True
    """Whether all that was found must still be somewhere afterwards: not of a cache, nor of what
    could be read after all and was used up."""

    def file(self, here: Here) -> Path:
        return sorted(here.folder.glob(self.glob))[0]


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


TIERED = memory("tiered")
TASK = (task("run", "look at it"),)

FORMATS = (
    Format("session", "kode-home/sessions/*.jsonl", SESSION),
    Format(
        "log of changes",
        "kode-home/sessions/*/undo/journal.jsonl",
        (undone_and_diffed, task("continue", "more")),
    ),
    Format(
        "kept contents",
        "kode-home/**/fcf33d*",
        (undone_and_diffed,),
        keeps=never,
    ),
    *(
        Format(
            f"subagent's {name}",
            f"kode-home/sessions/*/agents/*/{name}",
            (kode("session", "show", "SESSION"), task("continue", "more")),
        )
        for name in ("agent.json", "task.json", "result.json", "transcript.jsonl")
    ),
    Format(
        "config", "kode-home/config.json", (kode("config", "show"), kode("config", "check"), *TASK)
    ),
    Format(
        "project's config", "project/kode.json", (kode("config", "show"), kode("doctor"), *TASK)
    ),
    Format("AGENTS.md", "project/AGENTS.md", TASK),
    Format("approvals", "kode-home/permissions/*.json", TASK),
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
            keeps=never,
        )
        for system in ("tiered", "vault")
    ),
    *(
        Format(
            f"export of {system}",
            f"{system}.jsonl",
            tuple(
                kode("memory", "--memory", system, *words)
                for words in (
                    ("import", f"FOLDER/{system}.jsonl"),
                    ("approve", "--all", "--yes"),
                    ("show",),
                    ("import", "--mine", f"FOLDER/{system}.jsonl"),
                    ("show",),
                    ("log",),
                )
            ),
        )
        for system in ("tiered", "vault", "journal", "notes")
    ),
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("input") / "place"
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("KODE_", "OPENAI_", "ANTHROPIC_")):
                patch.delenv(name)
        yield made(folder)
    shutil.rmtree(folder.parent, ignore_errors=True)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@EXAMPLES
@given(data=st.data())
def test_no_file_content_breaks_a_command_or_loses_data(
    here: Here, form: Format, data: st.DataObject
) -> None:
    here.restore()
    path = form.file(here)
    found = data.draw(damaged(path.read_bytes()), label=form.name).data
    path.write_bytes(found)
    before = _lines(found)

    for number, command in enumerate(form.commands):
        done = command(here)

        fault = FAULT.search(done.told)
        assert fault is None, f"command {number}: {done.told[-2000:]}\n{_reports(here)}"
        assert done.code in (0, 1, 3), f"command {number}: {done}"

    if form.keeps(found):
        kept = b"\n".join(file.read_bytes() for file in here.files())
        missing = [line for line in before if line not in kept and _in_json(line) not in kept]
        assert not missing


def _lines(data: bytes) -> list[bytes]:
    """Without what surrounds a text, marks of byte order, white space, a NUL; and without what
    kode words in memory's files."""
    lines = re.split(rb"[\r\n]+", data.removeprefix(b"\xef\xbb\xbf"))
    bare = (line.strip(b" \t\v\f\x1c\x1d\x1e\x1f") for line in lines)
    return [line for line in bare if line and not WORDED.match(line)]


WORDED = re.compile(
    rb"> Summary:|# Tools Facts$|# [\d-]+ Episodes$|(turns|\w+_at|session_id|project): "
)


def _in_json(line: bytes) -> bytes:
    """As the history of memory has it, which keeps what was there before a change."""
    return json.dumps(line.decode(errors="replace"), ensure_ascii=False)[1:-1].encode()


def _reports(here: Here) -> str:
    folder = here.home / "logs"
    reports = sorted(folder.glob("fault-*.txt")) if folder.is_dir() else []
    return reports[-1].read_text()[-3000:] if reports else ""
