"""The lives of sessions that faults cut short, and what must be true of the memory and the files
that they leave, at any moment. The commands are those a person types. A script plays the model.

    tiered     turns, tools, facts, a compaction, a note, a trim, an undo
    subagents  two children that write while their parent waits

What memory alone does is killed at each step in `tests/memory`, for all systems.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kode.memory.rendering import strip_bullet
from kode.session import log
from kode.session.entries import TrimEntry
from tests.faults.checks import (
    first,
    has_replied,
    is_done,
    memory_log,
    memory_view,
    missing_agents,
    missing_changes,
    missing_files,
    missing_of_session,
    session_of,
    session_paths,
)
from tests.faults.driver import CommandStory, Stage
from tests.faults.place import Place, Run, Shown

HERE = {"text": "Still here."}
PROMPTS = ("Write about ships.", "Go on.")

Script = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Life:
    """The commands of one session."""

    name: str
    scripts: tuple[Script, ...]
    """What the model says in `kode run`, and then in each `kode continue`."""
    commands: tuple[Sequence[str], ...]
    """The commands after those; `newest` stands for the id of the session."""
    facts: Sequence[set[str]]
    """What memory holds; each change by the tool leads from one to the next."""
    versions: Mapping[str, Sequence[str]]
    """File of the project → what it holds, one after the other."""

    @property
    def names(self) -> list[str]:
        runs = ["run", *["continue"] * (len(self.scripts) - 1)]
        return [*runs, *(" ".join(words[:2]) for words in self.commands)]


@dataclass(frozen=True, eq=False)
class LifeCommand(CommandStory):
    """A command of a life, after those before it."""

    life: Life
    number: int

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.life.name}: {self.number} {self.life.names[self.number]}"

    def prepare(self, place: Place) -> Shown:
        # Without the sandbox, whose trial writes beside the tools, in a mount with the same paths.
        memory, sandbox = {"min_turns_for_extraction": 1}, {"enabled": False}
        place.configure({"memory": memory, "sandbox": sandbox})
        shown: Shown = []
        for number, name in enumerate(self.life.names[: self.number]):
            shown.append({"type": "command", "name": name})
            run = replace(self, number=number).do(place)
            assert run.code == 0, run.err
            shown += run.shown
        return [*shown, {"type": "command", "name": self.life.names[self.number]}]

    def argv(self, place: Place) -> list[str]:
        number, scripts = self.number, self.life.scripts
        if number < len(scripts):
            return task(place, scripts[number], self.life.names[number], PROMPTS[number])
        words = self.life.commands[number - len(scripts)]
        return [session_paths(place)[-1].stem if word == "newest" else word for word in words]

    def start_again(self, place: Place, shown: Shown) -> Run:
        return start_again(place, shown, *task(place, AFTER, "continue", "Are you there?"))

    def missing(self, place: Place, shown: Shown) -> list[str]:
        faults = missing_of_session(place, shown) + missing_changes(place, shown)
        faults += missing_files(place, shown, self.life.versions) + missing_agents(place, shown)
        return faults + self._missing_memory(place, shown) + self._missing_of_commands(place, shown)

    def _missing_memory(self, place: Place, shown: Shown) -> list[str]:
        alive = list(memory_view(place).statements())
        facts = {strip_bullet(one.text) for one in alive if one.kind != "episode"}
        is_undone = any(event["type"] == "command" and "undo" in event["name"] for event in shown)
        done = 0 if is_undone else sum(is_done(event, "memory") for event in shown)
        allowed = self.life.facts[done:]
        faults = [] if facts in allowed else [f"memory holds {facts}, not one of {allowed}"]
        # Notes on two sessions may say the same.
        texts = Counter((one.text, one.session * (one.kind == "episode")) for one in alive)
        faults += [f"{text} counts {n} times" for text, n in texts.items() if n > 1]
        session = session_of(shown)
        if not session or is_undone or first(shown, "notice"):
            return faults
        ended = sum(e["type"] == "result" and e["status"] == "success" for e in shown)
        turns = [one.turn for one in alive if one.session == session and one.kind == "episode"]
        waits = list((place.home / "memory/pending").glob(f"*/{session}"))
        if max(turns, default=0) < ended and not waits:
            faults.append(f"turn {ended} neither waits nor has a note")
        return faults

    def _missing_of_commands(self, place: Place, shown: Shown) -> list[str]:
        """What a command other than a task has said it did, and did not."""
        text = "\n".join(event["text"] for event in shown if event["type"] == "printed")
        faults = []
        if "kept" in text:
            _, entries, _ = log.read(session_paths(place)[-1])
            if not any(isinstance(entry, TrimEntry) for entry in entries):
                faults.append("the trim")
        if "undid" in text and not any(one.undoes for one in memory_log(place).changes()):
            faults.append("the undo")
        return faults

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        """What the person asked is not lost, and memory can be read."""
        read = stage.place.kode("memory", "show")
        faults = [f"reading memory: {read.err}"] * bool(read.code or read.err)
        *_, last = (n for n, event in enumerate(shown) if event["type"] == "command")
        is_refused = any(e["type"] == "result" and e["status"] == "error" for e in shown)
        if (session := session_of(shown[last:])) and not is_refused:
            text = (stage.place.home / f"sessions/{session}.jsonl").read_text()
            faults += ["the text"] * (PROMPTS[self.number] not in text)
        return faults


def task(place: Place, script: Script, *words: str) -> list[str]:
    """The arguments of a command that runs one task and shows its events."""
    flags = ["--permission-mode", "full", "--output-format", "stream-json"]
    return [*words[:-1], *place.script(script), *flags, words[-1]]


def start_again(place: Place, shown: Shown, *argv: str) -> Run:
    """Starts kode after a fault. What is half written goes with its first turn, or with the next
    clean-up of the home, a day later at most, which is due here."""
    (place.home / "upkeep").unlink(missing_ok=True)
    run = place.kode(*argv)
    if run.code == 3 and "no session" in run.err and not has_replied(shown):
        run = place.kode("run", *argv[1:])
    return run


# ── the lives ────────────────────────────────────────────────────────────────────────────────


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A call in a script."""
    return {"name": name, "arguments": arguments}


def calls(*calls: dict[str, Any], **reply: Any) -> dict[str, Any]:
    """A reply with calls in a script."""
    return {"calls": list(calls), **reply}


def sum_up(narrative: str) -> dict[str, Any]:
    """The answer to the question about an ended session."""
    text = json.dumps({"narrative": narrative, "facts": []})
    return {"match": "The transcript of the session", "text": text}


def _remember(action: str, **arguments: str) -> dict[str, Any]:
    return call("memory", action=action, target="user", **arguments)


EPISODE = sum_up("Wrote a file about ships.")
AFTER = [sum_up("It was about ships again."), HERE]
COMPACTION = {"match": "^This conversation is about to be shortened", "text": "A summary."}
FULL = {"error": {"status": 413, "text": "too long"}}
WRITTEN, CHANGED = {"text": "Written."}, {"text": "Changed."}
SHORT, LONG = "Likes short answers", "Likes long answers"
SHIPS = {"ships.txt": ("", "one\n", "two\n")}
WRITES_SHIPS = call("write_file", path="ships.txt", content="one\n")
EDITS_SHIPS = call("edit_file", path="ships.txt", old_text="one", new_text="two")
READS_SHIPS = call("read_file", path="ships.txt")

TIERED = Life(
    name="tiered",
    scripts=(
        [
            EPISODE,
            calls(WRITES_SHIPS, _remember("add", content=SHORT), text="I write it."),
            calls(READS_SHIPS),
            calls(EDITS_SHIPS),
            WRITTEN,
        ],
        [
            COMPACTION,
            sum_up("Changed a file about ships."),
            calls(call("shell", command="true")),
            FULL,
            calls(call("write_file", path="deep/er/more.txt", content="three\n")),
            calls(_remember("replace", old_text=SHORT, content=LONG)),
            CHANGED,
        ],
    ),
    commands=(("session", "trim", "newest", "4"), ("memory", "undo")),
    facts=(set(), {SHORT}, {LONG}),
    versions={**SHIPS, "deep/er/more.txt": ("", "three\n")},
)

WRITER = {
    "match": "(?m)^# Goal\nWrite",
    "calls": [call("write_file", path="boats.txt", content="boats\n")],
    "then": [
        calls(call("shell", command="sleep 0.3; echo late > late.txt")),
        {"text": "The boats are written."},
    ],
}
READER = {
    "match": "(?m)^# Goal\nLook",
    "calls": [call("list_files", pattern="*")],
    "then": [{"text": "There is little.", "delay_s": 0.2}],
}
DELEGATES = call("delegate_tasks", tasks=[{"goal": "Write of boats."}, {"goal": "Look around."}])

SUBAGENTS = Life(
    name="subagents",
    scripts=(
        [
            EPISODE,
            WRITER,
            READER,
            calls(_remember("add", content=SHORT)),
            calls(DELEGATES),
            calls(WRITES_SHIPS),
            WRITTEN,
        ],
    ),
    commands=(("session", "trim", "newest", "2"),),
    facts=(set(), {SHORT}),
    versions={**SHIPS, "boats.txt": ("", "boats\n")},
)

LIVES = (TIERED, SUBAGENTS)
