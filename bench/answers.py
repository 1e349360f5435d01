"""What memory is worth in an answer: stated in one process, asked in another, by whole runs.

    python -m bench.answers                             a script answers from what it was sent
    python -m bench.answers --server URL --model M      a local server; --provider: any API

    --facts N  --seed N  --systems tiered,vault,...  --conditions stated,changed,...
    --out FILE     results, a JSON line each; a run that was cut off continues there
    --json

stated       the person states a fact in one process, and asks about it in another
added        the person adds it with `kode memory add`: no model has to call a tool
approved     stated, and the person approves what waits in `kode memory review`
changed      as approved, then stated otherwise; of two that contradict each other, the person keeps
             the newer; then asked about
distractors  as approved, then 200 others of its kind come into memory, then it is asked about
episode      it came up in a session of four turns, and nobody said to remember it; approved too
without      as stated, asked with --no-memory
notes file   no memory: a file with the fact among the 200 others, attached whole

right    answers that hold the value, a random word that nobody could guess; with Wilson's interval
kept     how many of the facts memory holds when they are asked about
stale    answers that hold the value that is no longer true
other    answers that hold the value of another fact
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pexpect

from bench.answers_scripted import MODEL, answer
from bench.kept import columns, done_before, keep, share
from bench.measure import KODE
from bench.models import Model, add_model_flags, model_of
from bench.tasks.jail import environment
from kode.registry import SYSTEMS
from tests.scripted_server import ScriptedServer

APPROVED = ("approved", "changed", "distractors", "episode")
IN_MEMORY = ("stated", "added", *APPROVED)
TARGETS = {"tiered": "env", "vault": "project", "journal": "memory", "notes": "note"}
"""Where `kode memory add` puts a fact."""
WITHOUT = ("without", "notes file")
DISTRACTORS = 200
FACTS_AMONG_THEM = 20
"""What fits into the facts of the tiered system; the others are notes on past sessions."""
PROCESS_S = 1_800.0

_DECISIONS = {
    rf"\[{key}\] {choice}.*\[q\] quit": key
    for key, choice in {"a": "approve", "2": "keep the second", "s": "skip"}.items()
}
"""The choices of an item in `kode memory review` → the person's key; the first offered counts."""

KINDS = (
    "code name", "release branch", "test account", "bucket", "queue", "feature flag", "host alias",
    "nightly job", "dashboard", "support channel",
)  # fmt: skip
PLACES = (
    "billing service", "login form", "search index", "invoice parser", "date picker", "audit log",
    "rate limiter", "webhook relay", "image cache", "mail gateway", "report builder", "price list",
    "order book", "stock monitor", "user directory", "chat widget", "map view", "license server",
    "backup agent", "theme editor", "survey tool", "coupon engine",
)  # fmt: skip
_SYLLABLES = ("bra", "quel", "mar", "zo", "fin", "tu", "kes", "dro", "lim", "pa", "ven", "gri")


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something that cannot be guessed, and is true of this project alone."""

    thing: str
    value: str
    old_value: str
    """What it was before, where it changes."""

    @property
    def sentence(self) -> str:
        return f"The {self.thing} is {self.value}."

    @property
    def old_sentence(self) -> str:
        return f"The {self.thing} is {self.old_value}."

    @property
    def question(self) -> str:
        return f"What is the {self.thing}?"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One question: a line of the results."""

    key: str
    system: str
    """"" without memory."""
    condition: str
    right: bool
    kept: bool | None
    """Whether memory held the value when it was asked about; None without memory."""
    stale: bool
    other: bool
    status: str
    answer: str
    seconds: float
    """Of the process that answered."""
    input_tokens: int
    requests: int


def facts(number: int, seed: int) -> tuple[list[Fact], list[Fact]]:
    """That many facts, and the distractors: all different things of the same kinds."""
    rng = random.Random(seed)
    things = [f"{kind} of the {place}" for kind in KINDS for place in PLACES]
    rng.shuffle(things)
    values = [f"{a}{b}{c}" for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES]
    rng.shuffle(values)
    made = [
        Fact(thing=thing, value=values.pop(), old_value=values.pop())
        for thing in things[: number + DISTRACTORS]
    ]
    return made[:number], made[number:]


# ── processes ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Place:
    """A person's project and what kode keeps for them."""

    project: Path
    """The same in all cases: memory of a project is bound to its path."""
    kode_home: Path
    model: Model

    @property
    def environment(self) -> dict[str, str]:
        """Of the person's processes."""
        extra = {"KODE_HOME": str(self.kode_home), **self.model.environment}
        return environment(self.project.parent, extra)

    def run(self, *words: str, stdin: str = "") -> str:
        """Runs kode; its output. Raises: RuntimeError when it could not start."""
        done = subprocess.run(
            [KODE, *words],
            cwd=self.project,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PROCESS_S,
        )
        if done.returncode == 3:  # everything else is an outcome
            raise RuntimeError(f"kode {' '.join(words)}: {done.stderr.strip()}{done.stdout[:500]}")
        return done.stdout

    def say(self, system: str, *texts: str) -> dict[str, Any]:
        """One session of a turn per text, in one process; the result of its last turn."""
        flags = ["--memory", system] if system else ["--no-memory"]
        words = ["run", *flags, *self.model.flags, "--quiet", "--output-format"]
        if len(texts) == 1:
            found: dict[str, Any] = json.loads(self.run(*words, "json", texts[0]))
            return found
        return self._talk([*words, "stream-json", "--input-format", "stream-json"], texts)

    def _talk(self, words: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
        """Each text is said when the turn before has ended."""
        last: dict[str, Any] = {}
        with subprocess.Popen(
            [KODE, *words],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for text in texts:
                process.stdin.write(json.dumps({"type": "user", "text": text}) + "\n")
                process.stdin.flush()
                for line in process.stdout:
                    last = json.loads(line)
                    if last.get("type") == "result":
                        break
            process.stdin.close()
            process.stdout.read()
        return last

    def review(self, system: str) -> None:
        """Decides what waits, on a terminal: approves it, and keeps the newer of two entries that
        may contradict each other. Raises: pexpect.TIMEOUT."""
        terminal = pexpect.spawn(
            KODE,
            ["memory", "--memory", system, "review"],
            cwd=str(self.project),
            env={**self.environment, "TERM": "dumb"},
            dimensions=(50, 200),
            timeout=PROCESS_S,
        )
        while answer := terminal.expect([pexpect.EOF, *_DECISIONS]):
            terminal.send(list(_DECISIONS.values())[answer - 1])
        terminal.close()

    def holds(self, system: str, value: str) -> bool:
        return value in self.run("memory", "--memory", system, "export")


def fresh_place(folder: Path, model: Model) -> Place:
    """A repository and a home of kode in which nothing has happened. The same folder serves one
    case after the other: its path is in the prompt, and a server keeps what it has read of one."""
    project, kode_home = folder / "home/project", folder / "kode-home"
    for each in (project, kode_home):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    (project / "README.md").write_text("# The shop\n\nAn online shop.\n")
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    return Place(project=project, kode_home=kode_home, model=model)


def add_distractors(place: Place, system: str, others: Sequence[Fact]) -> None:
    """Brings all of them into memory: some as facts, the others as notes on past sessions."""
    facts = [fact.sentence for fact in others[:FACTS_AMONG_THEM]]
    notes = [
        (f"2026-{1 + number % 9:02}-{1 + number % 28:02}T12:00:00Z", f"{number:06x}", fact.sentence)
        for number, fact in enumerate(others[FACTS_AMONG_THEM:])
    ]
    rows: list[dict[str, Any]]
    match system:
        case "tiered":
            rows = [{"kind": "fact", "target": "env", "content": text} for text in facts]
            for at, id, text in notes:
                session = f"{at[:10].replace('-', '')}-120000-{id}"
                rows.append({"kind": "episode", "session_id": session, "content": text})
        case "vault":
            bullets = "\n".join(f"- {text}" for text in facts)
            rows = [{"path": "facts/preferences.md", "content": bullets}] if facts else []
            for month in sorted({at[:7] for at, _, _ in notes}):
                entries = [
                    f"## {' '.join(text.split()[:6])}\n- Date: {at[:10]}\n{text}"
                    for at, _, text in notes
                    if at.startswith(month)
                ]
                rows.append({"path": f"episodes/{month}.md", "content": "\n\n".join(entries)})
        case "journal":
            lines = "\n".join(f"- {text}" for text in facts)
            rows = [{"kind": "memory", "content": lines}] if facts else []
            rows += [{"kind": "entry", "at": at, "content": text} for at, _, text in notes]
        case _:
            shown = {"kind": "rule", "confidence": 0.9, "evidence": ["the user said so"]}
            rows = [{**shown, "content": text} for text in facts]
            rows += [
                {"kind": "summary", "tags": ["session"], "created_at": at, "content": text}
                for at, _, text in notes
            ]
    file = place.kode_home.parent / "distractors.jsonl"
    file.write_text("".join(json.dumps({"system": system, **row}) + "\n" for row in rows))
    place.run("memory", "--memory", system, "import", str(file))


# ── the cases ────────────────────────────────────────────────────────────────────────────────


def statement(sentence: str) -> str:
    return f"Remember for later sessions: {sentence}"


def correction(sentence: str) -> str:
    return f"This has changed, remember it instead of what I said before: {sentence}"


def episode(fact: Fact) -> list[str]:
    """A session in which the value is settled on in passing."""
    return [
        f"Read README.md. Does it name the {fact.thing}?",
        f"Never mind. The old one, {fact.old_value}, is taken already. Do not look at files.",
        f"We settled it in the meeting: {fact.sentence}",
        "Good. That is done, thank you.",
    ]


def prepare(place: Place, system: str, condition: str, fact: Fact, others: Sequence[Fact]) -> None:
    """All that happens before the question, each in a process of its own. Where `stated` is not
    what is measured, the person reviews what waits after each session."""
    match condition:
        case "changed":
            place.say(system, statement(fact.old_sentence))
            place.review(system)
            place.say(system, correction(fact.sentence))
        case "episode":
            place.say(system, *episode(fact))
        case "added":
            place.run("memory", "--memory", system, "add", TARGETS[system], fact.sentence)
        case "notes file":
            notes = sorted([*others, fact], key=lambda each: each.thing)
            lines = "".join(f"- {each.sentence}\n" for each in notes)
            (place.project / "NOTES.md").write_text(f"# Notes\n\n{lines}")
        case _:
            place.say(system, statement(fact.sentence))
    if condition in APPROVED:
        place.review(system)
    if condition == "distractors":
        add_distractors(place, system, others)


def ask(place: Place, system: str, condition: str, fact: Fact) -> dict[str, Any]:
    if condition == "notes file":
        words = ["run", "--no-memory", *place.model.flags, "--quiet", "--output-format", "json"]
        found: dict[str, Any] = json.loads(place.run(*words, "--ctx", "NOTES.md", fact.question))
        return found
    return place.say("" if condition == "without" else system, fact.question)


def case(
    place: Place, key: str, system: str, condition: str, fact: Fact, others: Sequence[Fact]
) -> Outcome:
    """One fact under one condition."""
    prepare(place, system, condition, fact, others)
    remembers = condition in IN_MEMORY
    kept = place.holds(system, fact.value) if remembers else None
    result = ask(place, system, condition, fact)
    said = re.findall(r"[a-z]+", result["result"].lower())
    return Outcome(
        key=key,
        system=system if remembers else "",
        condition=condition,
        right=fact.value in said,
        kept=kept,
        stale=condition == "changed" and fact.old_value in said,
        other=any(other.value in said for other in others),
        status=result["status"],
        answer=result["result"][:300],
        seconds=round(result["duration_ms"] / 1000, 2),
        input_tokens=result["usage"]["input_tokens"],
        requests=result["steps"],
    )


def cases(systems: Sequence[str], conditions: Sequence[str]) -> list[tuple[str, str]]:
    """System and condition; where memory plays no part, the system only tells."""
    return [
        *((systems[0], each) for each in WITHOUT if each in conditions),
        *((system, each) for system in systems for each in IN_MEMORY if each in conditions),
    ]


def run_all(model: Model, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every fact in every case, but for those that an earlier run has done."""
    earlier = done_before(options.out)
    asked, others = facts(options.facts, options.seed)
    rows = []
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        for index, fact in enumerate(asked):
            for system, condition in cases(options.systems, options.conditions):
                key = f"{model.name} {options.seed} {index} {system} {condition}"
                if key not in earlier:
                    place = fresh_place(Path(folder), model)
                    outcome = case(place, key, system, condition, fact, others)
                    earlier[key] = keep(asdict(outcome), options.out)
                    _show(earlier[key])
                rows.append(earlier[key])
    return rows


# ── figures ──────────────────────────────────────────────────────────────────────────────────


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By `system condition`: counts, and the tokens of a question on average."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(f"{row['system']} {row['condition']}".strip(), []).append(row)
    return {
        name: {
            "asked": len(group),
            "right": sum(row["right"] for row in group),
            "kept": None if None in (kept := [row["kept"] for row in group]) else sum(kept),
            "stale": sum(row["stale"] for row in group),
            "other": sum(row["other"] for row in group),
            "failed": sum(row["status"] != "success" for row in group),
            "requests": round(sum(row["requests"] for row in group) / len(group), 1),
            "input_tokens": round(sum(row["input_tokens"] for row in group) / len(group)),
            "seconds": round(sum(row["seconds"] for row in group) / len(group), 1),
        }
        for name, group in groups.items()
    }


def table(found: dict[str, dict[str, Any]]) -> str:
    """A line for each system and condition."""
    names = ["kept", "stale", "other", "failed", "requests", "input_tokens", "seconds"]
    lines = [["", "right", *names]]
    for name, group in found.items():
        shown = ("-" if group[key] is None else str(group[key]) for key in names)
        lines.append([name, share(group["right"], group["asked"]), *shown])
    return columns(lines)


def _show(row: dict[str, Any]) -> None:
    """One line on stderr as each result comes."""
    word = "right" if row["right"] else "not right"
    what = f"{row['system']} {row['condition']}".strip()
    print(f"{what}: {word}, kept {row['kept']}, {row['status']}: {row['answer'][:80]!r}",
          file=sys.stderr, flush=True)  # fmt: skip


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m bench.answers", description=__doc__, formatter_class=plain
    )
    add_model_flags(parser)
    parser.add_argument("--facts", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--systems", type=_names, default=tuple(SYSTEMS))
    parser.add_argument("--conditions", type=_names, default=(*WITHOUT, *IN_MEMORY))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    model = model_of(options)
    if model is None:
        with ScriptedServer(answer) as server:
            scripted = Model(provider="openai", name=MODEL, base_url=server.openai_url, key="none")
            found = figures(run_all(scripted, options))
    else:
        found = figures(run_all(model, options))
    print(json.dumps({"answers": found}) if options.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
