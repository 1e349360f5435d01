"""One running turn: its collaborators, its totals so far, how its checks ended, and whether it runs
in circles."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter

from kode.engine.agent import Agent
from kode.engine.context import Context
from kode.events import Check, Checked, Denial, Emit
from kode.messages import Text, ToolCall, Usage, cut_list, shorten
from kode.session.entries import Entry, TaintEntry
from kode.tool import WorkStep
from kode.values import dataclass, field

REMIND_AT = 3  # a second call can be a check; a third is a circle
END_AT = 5  # the reminders of the third and fourth did not help

REMINDER = (
    "[Call {count} of {name} with the same arguments and the same result, and nothing new in "
    "between: another one will not help. Use what the result says, change the arguments, take "
    "another tool, or give your answer. To wait for something, wait inside one command.]"
)
CIRCLE = (
    f"The model called {{name}} {END_AT} times with the same arguments and the same result, and "
    "the turn was ended. Ask for a smaller step or in other words, or use another model."
)
NOT_RUN = (126, 127)  # bash's exit statuses for a program that it could not run or find
NOTHING_SELECTED = 5
"""The exit status of pytest, and of unittest since Python 3.12, when they ran no test."""

Effect = tuple[str, str]
"""What a call does and to what: `("edit", PATH)`, `("shell", COMMAND)`, `(TOOL, ARGUMENTS)`."""


@dataclass
class Evidence:
    """The checks and edits of a turn, in order: how each check ended, by exit status, never by what
    the model says. `permissions/shell/programs.toml` lists the commands that check a project."""

    edits: int = 0
    _checks: dict[str, tuple[int | None, int]] = field(default_factory=dict)
    """Command → exit status of its last run, and the number of edits before it."""
    _ran_programs: bool = False
    """Whether anything ran since the last edit that may have checked it."""
    _refused: dict[Effect, tuple[Effect, Sequence[Denial]]] = field(default_factory=dict)
    """Effect that is still missing → the refused effect that it belongs to, with its denials."""

    def refuse(self, effect: Effect, denials: Sequence[Denial], lost: Iterable[str] = ()) -> None:
        """Records that an effect was refused, or only its changes to the paths in `lost`."""
        parts = [("edit", path) for path in lost] or [effect]
        self._refused |= dict.fromkeys(parts, (effect, denials))

    def note_effects(self, effects: set[Effect]) -> None:
        """Records that effects took place: they no longer count as refused."""
        for part, (effect, _) in [*self._refused.items()]:
            if part in effects or effect in effects:
                del self._refused[part]

    def find_refused(self) -> tuple[Denial, ...]:
        """What was refused and not done since, in order."""
        groups = map(itemgetter(1), self._refused.values())
        return tuple(dict.fromkeys(chain.from_iterable(groups)))

    def record_step(self, step: WorkStep) -> None:
        """Records what a call, or a subagent, did."""
        self.edits += step.is_edit
        self._ran_programs = step.ran_programs or (self._ran_programs and not step.is_edit)
        for command, status in step.checks:
            if status not in NOT_RUN and not (
                status == NOTHING_SELECTED and _selects_tests(command)
            ):
                self._checks.pop(command, None)
                self._checks[command] = (status, self.edits)

    def checks(self) -> tuple[Check, ...]:
        """Each check whose end is known, by its last run, in that order."""
        return tuple(
            Check(
                command=" ".join(command.split()),
                passed=status == 0,
                after_last_edit=after == self.edits,
            )
            for command, (status, after) in self._checks.items()
            if status is not None
        )

    def judge_checks(self) -> Checked:
        """What the checks say about the files as the turn leaves them."""
        since = [status for status, after in self._checks.values() if after == self.edits]
        if any(since):
            return "failed"
        if 0 in since:
            return "passed"
        is_silent = since or self._ran_programs or not self.edits
        return "unknown" if is_silent else "not_since_last_edit"

    def explain_missing(self) -> str:
        """What makes a turn with an answer incomplete, in sentences: what was refused, and which of
        the checks after the newest edit that was checked failed; "" if it is complete."""
        if not self._checks and not self._refused:
            return ""
        ended = [(name, *run) for name, run in self._checks.items() if run[0] is not None]
        newest = max((after for _, _, after in ended), default=0)
        failed = (name for name, status, after in ended if status and after == newest)
        lines = [f"Last check failed: `{shorten(name, 100)}`." for name in failed]
        return describe_missing(self.find_refused(), lines)


def describe_missing(refused: Iterable[Denial], failed: Sequence[str] = ()) -> str:
    """The refusals, then the sentences in `failed`, in one text: three, the rest counted."""
    parts = [f"{denial.tool} {shorten(denial.subject, 100)}: {denial.reason}" for denial in refused]
    return " ".join(cut_list([*parts, *failed], 3))


def _selects_tests(command: str) -> bool:
    names = {os.path.basename(word) for word in command.split()}
    return not names.isdisjoint(("pytest", "py.test", "unittest"))


@dataclass
class Repeats:
    """Detects a model that runs in circles: it repeats calls with the same results, and no new call
    or result comes in between. So a test that fails in the same way after each edit is not a
    circle, but two alternating calls are."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How often each (name, arguments, result) occurred since something new happened."""
    circling: str = ""
    """The tool that was called too often, if any: the turn ends."""

    def count_call(self, call: ToolCall, result: str) -> str:
        """Counts a call with its result. Returns a warning to add for the model, or ""."""
        key = (call.name, call.arguments, result)
        if key not in self.counts:
            self.counts = Counter(dict.fromkeys(self.counts, 1))
        self.counts[key] = count = self.counts[key] + 1
        self.circling = call.name if count >= END_AT else self.circling
        return REMINDER.format(count=count, name=call.name) if count >= REMIND_AT else ""


@dataclass(kw_only=True)
class Run:
    """A running turn. The figures that end up on disk and on screen are counted only here."""

    agent: Agent
    context: Context
    emit: Emit
    steering: Callable[[], Sequence[Text]] = tuple
    """Returns what the person has typed since the last call: the model gets it with its next step,
    and the turn continues as long as there is any."""
    started: float = field(default_factory=time.monotonic)
    """By `time.monotonic`; the time limit counts from here."""
    evidence: Evidence = field(default_factory=Evidence)
    """Shared with the turn that this one continues, if there is one."""
    is_recorded: bool = False
    """Whether the person's text is on disk."""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    """None if the price of the model, or of one of the replies, is unknown."""
    fallback_model: str | None = None
    """See `TurnEnded`."""
    answer: str = ""
    files_changed: dict[str, None] = field(default_factory=dict)
    denials: list[Denial] = field(default_factory=list)
    repeats: Repeats = field(default_factory=Repeats)
    untrusted: list[TaintEntry] = field(default_factory=list)
    """Outside sources that were read but are not on disk yet."""
    result_chars: int = 0
    """Characters that the remaining results of the newest reply's calls may have."""
    calls_left: int = 0
    """Calls of that reply to which no share of these characters is assigned yet; later calls may
    use what earlier ones leave of their shares."""

    def note_work(self, files_changed: Iterable[str], steps: Iterable[WorkStep]) -> None:
        """Records what a call, a command or a subagent did."""
        self.files_changed |= dict.fromkeys(files_changed)
        for step in steps:
            self.evidence.record_step(step)

    def record(self, *entries: Entry) -> None:
        """Records entries, preceded by the outside sources in `untrusted`, which it clears. Raises:
        StorageError."""
        self.context.session.append(*self.untrusted, *entries)
        self.untrusted.clear()
