"""The stories that faults are put into: each command of the lives of sessions, and what changes
many files at once: the apply of a command's changes, undo, redo, an import, an approval of
memory, a goal, the sessions of an editor and of a client.

After the next start each file is as before or as after, or what is half done can be undone.
"""

import json
from typing import Any

from kode.session.index import list_sessions
from tests.faults.checks import is_done, session_paths
from tests.faults.driver import CommandStory, Stage, Story
from tests.faults.injected import Injection
from tests.faults.lives import LIVES, LifeCommand, call, start_again
from tests.faults.place import Event, Place, Run, Shown, Wire
from tests.plugins.imports.test_sessions import CLAUDE

FILES = 8
FACTS = ("Prefers tabs", "Likes short answers")
CHANGE = (
    "for n in 0 1 2 3 4; do echo new > $n.txt; done; rm 5.txt 6.txt; mkdir -p deep/er; "
    "for n in 1 2 3; do echo new > deep/er/$n.txt; done"
)
TASK = "Change the files."
SCRIPT = [
    {"match": "Are you there", "text": "Still here."},
    {"text": "I run.", "calls": [call("shell", command=CHANGE)]},
    {"text": "Done."},
]
SHOWN = ("--output-format", "stream-json")


class Work(CommandStory):
    """In a project with some files; the model changes them by a command in the sandbox."""

    is_sandboxed = True

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, place: Place) -> Shown:
        for number in range(FILES):
            (place.project / f"{number}.txt").write_text("old\n")
        _, provider, _, script = place.script(SCRIPT)
        place.configure(
            {
                "provider": provider,
                "script": script,
                "memory": {"system": "tiered", "min_turns_for_extraction": 9},
                "sandbox": {"enabled": True},
                "permissions": {"mode": "auto-edit"},
            }
        )
        return []

    def argv(self, place: Place) -> list[str]:
        return ["run", *SHOWN, TASK]

    def start_again(self, place: Place, shown: Shown) -> Run:
        return start_again(place, shown, "continue", *SHOWN, "Are you there?")

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        is_whole = any(is_done(event, "shell") and not event["refusals"] for event in shown)
        return faults_of_tree(stage, is_whole)


def faults_of_tree(stage: Stage, is_shown_as_done: bool) -> list[str]:
    """Each file is as before or as after the change, all of them as after one that was shown as
    done, and undo leads back."""
    before, after = stage.trees
    tree = stage.place.tree
    faults = [
        f"{path} is torn" for path in tree if tree[path] not in (before.get(path), after.get(path))
    ]
    if is_shown_as_done and tree != after:
        faults.append("what was shown as done is not there")
    if tree != before:
        answer(stage.place, "/undo")
        if stage.place.tree != before:
            faults.append(f"undone it is {stage.place.tree}")
    return faults


def edit(wire: Wire, place: Place, text: str, session: str = "") -> None:
    """An editor sends a text in a session, a new one where none is named."""
    where = {"cwd": str(place.project), "mcpServers": []}
    wire.ask("initialize", protocolVersion=1, clientCapabilities={})
    if session:
        wire.ask("session/load", sessionId=session, **where)
    else:
        session = wire.ask("session/new", **where)["sessionId"]
    if text:
        prompt = [{"type": "text", "text": text}]
        wire.ask("session/prompt", sessionId=session, prompt=prompt)


def answer(place: Place, text: str, injection: Injection | None = None) -> Run:
    """An editor sends a text in the newest session, as the command that takes back changes."""
    session = list_sessions(place.home)[0].id
    with place.connected("acp", injection=injection) as wire:
        edit(wire, place, text, session)
    return as_run(wire, [])


def as_run(wire: Wire, shown: Shown) -> Run:
    """What a client has seen of a kode that has ended."""
    lines = "".join(f"{json.dumps(event)}\n" for event in shown)
    return Run(wire.process.returncode, lines, "")


class TakingBack(Work):
    """`/undo` or `/redo`."""

    def prepare(self, place: Place) -> Shown:
        super().prepare(place)
        place.kode("run", TASK)
        if self.name == "redo":
            answer(place, "/undo")
        return []

    def do(self, place: Place, injection: Injection | None = None) -> Run:
        return answer(place, f"/{self.name}", injection)

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        tree = stage.place.tree
        if tree not in stage.trees:
            return [f"the tree is mixed: {tree}"]
        is_after = tree == stage.trees[1]
        other = "redo" if self.name == "undo" else "undo"
        answer(stage.place, f"/{other if is_after else self.name}")
        goal = stage.trees[not is_after]
        return [] if stage.place.tree == goal else [f"the way back leads to {stage.place.tree}"]


class Import(Work):
    """Of sessions of another agent."""

    is_sandboxed = False

    def prepare(self, place: Place) -> Shown:
        super().prepare(place)
        place.kode("run", "Are you there?")
        folder = place.folder / "foreign"
        folder.mkdir()
        lines = CLAUDE.read_text()
        for number in range(FILES):
            (folder / f"{number}.jsonl").write_text(f'{lines}{{"type":"x","n":{number}}}\n')
        return []

    def argv(self, place: Place) -> list[str]:
        return ["session", "import", str(place.folder / "foreign")]

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        place = stage.place
        ids = [summary.id for summary in list_sessions(place.home)]
        texts = [event["text"] for event in shown]
        imported = [text.split()[0] for text in texts if not text.startswith(" ")]
        faults = [f"imported and not there: {id}" for id in imported if id not in ids]
        self.do(place)
        if (count := len(list_sessions(place.home))) != FILES + 1:
            faults.append(f"after another import there are {count - 1} of {FILES}")
        return faults


class CleanUp(Work):
    """Of all sessions, with what lies beside them."""

    is_sandboxed = False

    def prepare(self, place: Place) -> Shown:
        super().prepare(place)
        for _ in range(2):
            place.kode("run", TASK)
        return []

    def argv(self, place: Place) -> list[str]:
        return ["session", "cleanup", "0"]

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        self.do(stage.place)
        left = [path.name for path in (stage.place.home / "sessions").glob("2*")]
        return [f"cleaned up again there are {left}"] if left else []


class Approval(Work):
    """Of what waits to be remembered."""

    is_sandboxed = False

    def prepare(self, place: Place) -> Shown:
        super().prepare(place)
        place.kode("run", "Are you there?")
        file = place.folder / "CLAUDE.md"
        file.write_text("# Me\n\n" + "".join(f"- {fact}\n" for fact in FACTS))
        place.kode("memory", "import", "--from", "claude", str(file))
        return []

    def argv(self, place: Place) -> list[str]:
        return ["memory", "approve", "--from", "~/CLAUDE.md"]

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        texts = stage.place.kode("memory", "show").out + stage.place.kode("memory", "approve").out
        faults = [f"{fact!r} is there {texts.count(fact)} times" for fact in FACTS]
        return [fault for fault in faults if "there 1 times" not in fault]


class Editor(Work):
    """A session of `kode acp`."""

    def do(self, place: Place, injection: Injection | None = None) -> Run:
        with place.connected("acp", injection=injection) as wire:
            edit(wire, place, TASK)
        return as_run(wire, [{"type": "update", **event} for event in wire.shown])

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        calls = calls_in(shown)
        faults = []
        if calls:
            with stage.place.connected("acp") as wire:
                edit(wire, stage.place, "", list_sessions(stage.place.home)[0].id)
            loaded = calls_in(wire.shown)
            faults += [
                f"a call was {before}, and is {loaded.get(id)}"
                for id, before in calls.items()
                if not is_same_call(before, loaded.get(id, {}))
            ]
        is_whole = any(before.get("status") == "completed" for before in calls.values())
        return faults + faults_of_tree(stage, is_whole)


def calls_in(shown: Shown) -> dict[str, Event]:
    """What an editor knows of each call, by its id."""
    calls: dict[str, Event] = {}
    for update in (event["update"] for event in shown):
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            id = update["toolCallId"]
            calls[id] = {**calls.get(id, {}), **update}
    return calls


def is_same_call(before: Event, after: Event) -> bool:
    """Whether a loaded call is the one that was shown; one that had ended, with its end. An editor
    is shown the change of a command as a diff only while it is made."""
    names = ["rawInput"]
    if before.get("status") in ("completed", "failed"):
        names.append("status")
    return all(before.get(name) == after.get(name) for name in names)


class Client(Work):
    """A session that a client of `kode mcp serve` starts."""

    def do(self, place: Place, injection: Injection | None = None) -> Run:
        states: Shown = []
        with place.connected("mcp", "serve", injection=injection) as wire:
            where = str(place.project)
            states.append(use(wire, "kode_start", prompt=TASK, cwd=where, wait_s=30))
        return as_run(wire, [{"type": "state", **state} for state in states])

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        ends = [event.get("result", {}).get("status") for event in shown]
        faults = faults_of_tree(stage, "success" in ends)
        started = {event["session"] for event in shown if "error" not in ends}
        with stage.place.connected("mcp", "serve") as wire:
            listed = {one["session"] for one in use(wire, "kode_sessions")["sessions"]}
            faults += [f"{session} is not listed" for session in started - listed]
            for session in listed:
                ask = {"session": session, "prompt": "Are you there?", "wait_s": 30}
                state = use(wire, "kode_reply", **ask)
                if state.get("result", {}).get("result") != "Still here.":
                    faults.append(f"it continues with {state}")
        return faults


def use(wire: Wire, name: str, **arguments: Any) -> dict[str, Any]:
    """The state that a tool of the MCP server gives. Raises: EOFError where it gives none."""
    if not wire.requests:
        info = {"name": "a test", "version": "1"}
        wire.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        wire.send({"method": "notifications/initialized"})
    done = wire.ask("tools/call", name=name, arguments=arguments)
    if "structuredContent" not in done:
        raise EOFError
    state: dict[str, Any] = done["structuredContent"]
    return state


VERIFY = ("--goal", "the answer is right", "--verify", "sh tests/check.sh")
PURSUIT = [
    {
        "match": "check failed|Continue with the goal",
        "calls": [call("shell", command=f"echo right > answer.txt; {CHANGE}")],
        "then": [{"text": "Now it is done."}],
    },
    {"match": ".", "text": "It is done."},
]


class Goal(Work):
    """The first turn claims success, the second has it."""

    def prepare(self, place: Place) -> Shown:
        super().prepare(place)
        place.script(PURSUIT)
        (place.project / "tests").mkdir()
        (place.project / "tests/check.sh").write_text("grep -q right answer.txt\n")
        (place.project / "answer.txt").write_text("wrong\n")
        return []

    def _flags(self, place: Place) -> list[str]:
        return [*place.script(PURSUIT), *SHOWN]

    def argv(self, place: Place) -> list[str]:
        return ["run", *self._flags(place), *VERIFY]

    def start_again(self, place: Place, shown: Shown) -> Run:
        """The goal is resumed, or pursued once more if the kill came before anything of it was on
        disk; one that has ended gets another turn."""
        early = records_of(place)
        if not any("goal" in record for record in early):
            words: tuple[str, ...] = ("run", *VERIFY)
        elif any("ended" in record for record in early):
            words = ("run", "Say that it is done.")
        else:
            words = ("continue",)
        run = place.kode(*words, *self._flags(place))
        line = json.dumps({"type": "records", "early": early})
        return Run(run.code, f"{run.out}{line}\n", run.err)

    def unfinished(self, stage: Stage, shown: Shown, told: Run) -> list[str]:
        """No attempt is lost or repeated, and the goal is reached once."""
        early, late = told.shown[-1]["early"], records_of(stage.place)
        faults = []
        ends = [record["ended"] for record in late if "ended" in record]
        if ends != ["reached"]:
            faults.append(f"it ended as {ends}")
        attempts = [record for record in late if "attempt" in record]
        numbers = [attempt["attempt"] for attempt in attempts]
        turns = [attempt["turn"] for attempt in attempts]
        if numbers != [*range(1, len(numbers) + 1)] or turns != sorted(set(turns)):
            faults.append(f"attempts {numbers} of turns {turns}")
        if late[: len(early)] != early:
            faults.append(f"what was on disk is lost or changed: {early} {late}")
        values = [event.get("value") or {} for event in shown if event["type"] == "notice"]
        for value in values:
            if value.pop("type", "") == "goal_attempt" and not any(
                attempt == {**attempt, **value} for attempt in attempts
            ):
                faults.append(f"an attempt that was told of is lost or changed: {value}")
        if stage.place.tree != stage.trees[1]:
            faults.append(f"the goal is not in the tree: {stage.place.tree}")
        return faults


def records_of(place: Place) -> list[dict[str, Any]]:
    """What the sessions say of goals, in their order."""
    lines = (
        json.loads(line)
        for path in session_paths(place)
        for line in path.read_text().splitlines()
        if line.endswith("}")
    )
    return [line["value"] for line in lines if line.get("type") == "x-goals"]


STORIES: tuple[Story, ...] = (
    *(LifeCommand(life, number) for life in LIVES for number in range(len(life.names))),
    Work("apply"),
    TakingBack("undo"),
    TakingBack("redo"),
    Import("import"),
    CleanUp("clean-up"),
    Approval("approval"),
    Editor("editor"),
    Client("client"),
    Goal("goal"),
)
