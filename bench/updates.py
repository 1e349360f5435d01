"""What is left of repeats and changes with a judge that is always right:
`python -m bench.updates [--lives N] [--seed N] [--json]`.

Each life is a memory of its own and 20 updates, of which ten state something new, five repeat it in
other words and five change it in other words. A session states four of them. Of every two updates
the model saves one by its tool, as it comes; the other is found by the question that tiered asks
when the session ends. The script knows of every sentence what it is about and what it says of that,
and answers both questions by it: what is left wrong is what memory did not ask, or did not do.

`large` are lives that begin with 120 other facts in memory, more than one question shows. In
`absent` the question at a write gets no answer, and the one at the end has to do all of it.

duplicates   of the repeats, the share that stand beside the entry they repeat
stale        of the changes, the share whose old value still stands unmarked
lost         facts whose newest value is in no entry
calls        of the model by memory, a session
"""

import argparse
import asyncio
import itertools
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from bench.measure import report
from kode import paths
from kode.config.model import MemoryConfig
from kode.events import no_emit
from kode.memory.contract import MemoryContext, Turn
from kode.memory.question import INSTRUCTIONS
from kode.memory.system import Memory, make_system
from kode.messages import Message, Text, text_of, user_message
from kode.provider import Request
from kode.session.record import Project, SessionRecord
from kode.tool import ToolContext
from kode.workplace import NOWHERE

Kind = Literal["new", "repeat", "change"]

LIVES = 10
NEW, REPEATS, CHANGES = 10, 5, 5
A_SESSION = 4
OTHERS = 120
DISPUTED = "(not settled) "
START = datetime(2026, 3, 2, 9, tzinfo=UTC)

SUBJECTS: tuple[tuple[str, ...], ...] = (
    (
        "The gateway listens on port {}",
        "Reach the front door of the cluster at :{}",
        "8080 9090 7070",
    ),
    ("Deploys go out with {}", "Releases are shipped by means of {}", "Ansible Puppet Nomad"),
    ("The staging database is {}", "Pre-production data is kept in {}", "MariaDB Postgres Oracle"),
    ("Answers are to be in {}", "Reply to me in {}", "Danish Finnish Swedish"),
    ("Unit tests run under {}", "To check a change, call {}", "pytest nose tox"),
    ("Indent by {} columns", "Nested code is shifted right {} places", "two four eight"),
    ("{} signs off every release", "Ask {} before anything ships", "Ingrid Pavel Noor"),
    ("Logs are held for {} days", "After {} days old output is thrown away", "30 60 90"),
    ("The office is in {}", "We all work from {}", "Lisbon Oslo Turin"),
    ("Images are built by {}", "Containers come out of {}", "Kaniko Buildah Docker"),
    ("Secrets lie in {}", "Passwords are fetched from {}", "Vault Infisical Doppler"),
    ("The main branch is called {}", "Merge finished work into {}", "trunk main develop"),
    ("Meetings are on {}", "The team talks every {}", "Monday Thursday Friday"),
    ("Pages are drawn with {}", "The web part is written in {}", "Svelte Vue React"),
    ("Queues are run by {}", "Background jobs travel through {}", "RabbitMQ Kafka NATS"),
    ("The licence is {}", "Code may be used under the terms of {}", "MIT Apache BSD"),
)


@dataclass(frozen=True)
class Said:
    subject: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Update:
    kind: Kind
    text: str
    said: Said


@dataclass
class Script:
    """The model that memory asks: it knows what every sentence says."""

    said_by: dict[str, Said] = field(default_factory=dict)
    """Sentence → what it says; in the order in which they were said."""
    fresh: list[str] = field(default_factory=list)
    """What the session that ends brought, and no tool saved."""
    is_absent: bool = False
    """Whether the question at a write gets no answer."""
    calls: int = 0

    async def reply(self, request: Request) -> Message:
        self.calls += 1
        prompt = "\n\n".join(map(text_of, request.messages))
        is_end = request.system == INSTRUCTIONS
        if not is_end and self.is_absent:
            raise TimeoutError
        text = self._at_the_end(prompt) if is_end else self._word(prompt)
        return Message(role="assistant", parts=(Text(text=text),), stop="end")

    def _word(self, prompt: str) -> str:
        """same, update or distinct, of the stored facts and a new one."""
        stored = [json.loads(fact) for fact in re.findall(r"(?m)^Stored fact \d+: (.*)$", prompt)]
        (new,) = re.findall(r"(?m)^New fact: (.*)$", prompt)
        for number, text in enumerate(stored, 1):
            how = self._compare(json.loads(new), text)
            if how != "new":
                return f"{'same' if how == 'repeats' else 'update'}-{number}"
        return "distinct"

    def _at_the_end(self, prompt: str) -> str:
        listed = re.findall(r"(?m)^\d+\. (.*?) \([^()]*\)$", prompt.partition("\n\n")[0])
        lines = [*listed, *self.fresh]
        facts = [
            {"fact": text, "stated": True, "quote": text, "about": "project"} for text in self.fresh
        ]
        order = {text: number for number, text in enumerate(self.said_by)}
        same, outdated = [], []
        for number, line in enumerate(lines, 1):
            for other, text in enumerate(lines[: number - 1], 1):
                how = self._compare(line, text)
                if how == "repeats":
                    same.append([other, number])
                elif how == "changes":
                    is_later = order[line] > order[text]
                    older, newer = (other, number) if is_later else (number, other)
                    outdated.append({"line": older, "by": newer})
        answer = {"narrative": "Worked on it.", "facts": facts, "same": same, "outdated": outdated}
        return json.dumps(answer)

    def _compare(self, new: str, old: str) -> str:
        said, before = self.said_by.get(new), self.said_by.get(old)
        if said is None or before is None or said.subject != before.subject:
            return "new"
        return "repeats" if said.value == before.value else "changes"


@dataclass(frozen=True)
class Figures:
    updates: int
    duplicates: float
    stale: float
    lost: int
    calls: float


def updates(rng: random.Random) -> list[Update]:
    """The updates of a life, in order: what is repeated or changed was said in another session."""
    chosen = rng.sample(SUBJECTS, NEW)
    again = chosen[: NEW // 2]
    result = [_update("new", subject, 0, subject[-1].split()[0]) for subject in chosen]
    result += [_update("repeat", subject, 1, subject[-1].split()[0]) for subject in again[:REPEATS]]
    changed = chosen[NEW // 2 :][:CHANGES]
    return result + [_update("change", subject, 1, subject[-1].split()[1]) for subject in changed]


def _update(kind: Kind, subject: Sequence[str], wording: int, value: str) -> Update:
    said = Said(subject=subject[0], value=value)
    return Update(kind=kind, text=subject[wording].format(value), said=said)


def make_others() -> Iterator[str]:
    """Facts about other things, enough that no question shows them all."""
    places = ("barn", "harbour", "mill", "orchard", "quarry", "tower")
    for n in range(OTHERS):
        yield f"Sensor {n} of the {places[n % len(places)]} reads {n * 7 % 91} every {n + 3} hours"


async def live(
    root: Path, seed: int, *, large: bool, is_absent: bool = False
) -> tuple[list[Update], list[str], int, int]:
    """The updates, what the prompt shows in the end, the sessions, and the calls."""
    said = updates(random.Random(seed))
    script = Script(said_by={update.text: update.said for update in said}, is_absent=is_absent)
    limit = 20_000 if large else 2_500
    settings = MemoryConfig(facts_limit_env=limit, min_turns_for_extraction=1)
    if large:
        file = root / "memory" / "facts" / "env.md"
        file.parent.mkdir(parents=True)
        file.write_text("\n§\n".join(make_others()))
    sessions = [said[at : at + A_SESSION] for at in range(0, len(said), A_SESSION)]
    for number, some in enumerate(sessions):
        memory, record = await _open_memory(root, settings, script, number, some)
        script.fresh = []
        for at, update in enumerate(some, 1):
            turn = Turn(number=at, text=update.text, answer="Noted.", messages=_talk(update.text))
            await memory.recall(turn)
            if at % 2:
                await _save(memory, update.text)
            else:
                script.fresh.append(update.text)
            await memory.after_turn(turn)
        await memory.before_drop(record.messages, "exit")
        await memory.close(1)
    last, _ = await _open_memory(root, settings, script, len(sessions), [])
    conflicts = {fact.id for pair in last.store.view().conflicts() for fact in pair}
    marks = ((DISPUTED if fact.id in conflicts else "", fact) for fact in last.visible_facts())
    return said, [mark + fact.text for mark, fact in marks], len(sessions), script.calls


async def _open_memory(
    root: Path, settings: MemoryConfig, script: Script, number: int, some: Sequence[Update]
) -> tuple[Memory, SessionRecord]:
    start = START + timedelta(days=number)
    clock = (start + timedelta(seconds=second) for second in itertools.count())
    record = SessionRecord(
        id=f"{start:%Y%m%d}-090000-abcdef",
        project=Project(root, paths.path_hash(root), False),
        messages=[message for update in some for message in _talk(update.text)],
        typed=[update.text for update in some],
        turns=len(some),
        started_at=start,
        ended_at=start + timedelta(hours=1),
    )
    context = MemoryContext(
        root=root / "memory",
        cwd=root,
        project_root=None,
        session_id=record.id,
        emit=no_emit,
        ask_reply=script.reply,
        now=lambda: next(clock),
        typed_messages=lambda: record.typed,
        session=lambda id: record,
    )
    memory = make_system(settings)
    assert isinstance(memory, Memory)
    await memory.open(context, {})
    return memory, record


async def _save(memory: Memory, text: str) -> None:
    (tool,) = memory.tools()
    context = ToolContext(
        place=NOWHERE, call_id="call", session_id="s", emit=no_emit, seen_files={}
    )
    arguments = {"action": "add", "target": "env", "content": text, "quote": text}
    await tool.run(context, tool.check(arguments))


def _talk(text: str) -> tuple[Message, ...]:
    answer = Message(role="assistant", parts=(Text(text="Noted."),), stop="end")
    return user_message(text), answer


def count(lives: Sequence[tuple[list[Update], list[str], int, int]]) -> Figures:
    """The figures of some lives."""
    duplicates = stale = lost = 0
    for said, shown, _, _ in lives:
        unmarked = [entry for entry in shown if not entry.startswith(DISPUTED)]
        newest = {update.said.subject: update.said for update in said}
        for subject, now in newest.items():
            of = [update for update in said if update.said.subject == subject]
            standing = [update for update in of if any(update.text in entry for entry in unmarked)]
            duplicates += max(0, sum(update.said == now for update in standing) - 1)
            stale += any(update.said != now for update in standing)
            lost += not any(
                update.said == now for update in of if any(update.text in e for e in shown)
            )
    sessions = sum(number for _, _, number, _ in lives)
    return Figures(
        updates=sum(len(said) for said, *_ in lives),
        duplicates=round(duplicates / (REPEATS * len(lives)), 4),
        stale=round(stale / (CHANGES * len(lives)), 4),
        lost=lost,
        calls=round(sum(calls for *_, calls in lives) / sessions, 2),
    )


async def measure(lives: int, seed: int) -> dict[str, Figures]:
    """Of ordinary lives, of as many beside many other facts, and without a judge at the writes."""
    figures = {}
    kinds = (("ordinary", False, False), ("large", True, False), ("absent", False, True))
    for name, large, is_absent in kinds:
        lived = []
        for number in range(lives):
            with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
                life = live(Path(folder), seed + number, large=large, is_absent=is_absent)
                lived.append(await life)
        figures[name] = count(lived)
    return figures


def main(argv: list[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench.updates")
    parser.add_argument("--lives", type=int, default=LIVES, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    figures = asyncio.run(measure(options.lives, options.seed))
    rows: dict[str, dict[str, Any]] = {name: asdict(row) for name, row in figures.items()}
    return report(rows, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
