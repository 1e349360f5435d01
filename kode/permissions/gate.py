"""The gate that asks a person: decisions become questions, answers become verdicts and approvals.

What needs a question is `decide`'s business; how it looks on a screen is the face's.
"""

import asyncio
import os
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from kode.contracts import (
    AtStake,
    FileChange,
    Kept,
    PermissionMode,
    Sandbox,
    Tool,
    ToolContext,
    Verdict,
)
from kode.errors import KodeError
from kode.events import Emit, Notice, silent
from kode.permissions import approvals
from kode.permissions import rules as grammar
from kode.permissions.decide import decide_call, make_call
from kode.permissions.decide_commands import again_outside
from kode.permissions.decision import Call, Decision, SandboxKind
from kode.permissions.rules import Rule, Rules, parse, parse_all


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question for the person. Every text in it shows hidden characters (`visible`)."""

    tool: str
    subject: str
    """The argument it is about: the path, the command, the URL."""
    title: str
    preview: str
    """What will happen, whole: a diff, the command, the text."""
    reason: str
    """Why it is asked."""
    dangers: tuple[str, ...] = ()
    """What it would destroy, a sentence each."""
    kind: str = ""
    """What approvals are counted by: the risk of a command, else what the tool does."""
    asker: str = ""
    """The subagent that wants it; "" for the agent itself."""
    may_always: bool
    """Whether "session" and "project" are on offer."""
    rules: tuple[str, ...] = ()
    """The rules that "session" and "project" would add."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    choice: Literal["once", "session", "project", "no"]
    message: str = ""
    """With "no": a word for the model."""


KeepFirst = Callable[[AtStake], Awaitable[str]]
"""Tries to keep what a command may lose; says in a sentence for the question what is kept."""

Ask = Callable[[Question], Awaitable[Answer]]
"""Shows a question and waits for the answer. Cancelling it withdraws the question."""


class PermissionSettings(Protocol):
    """The part of the config the gate reads."""

    @property
    def mode(self) -> PermissionMode: ...
    @property
    def allow(self) -> Sequence[str]: ...
    @property
    def ask(self) -> Sequence[str]: ...
    @property
    def deny(self) -> Sequence[str]: ...


class PersonGate:
    """Decides by rules and mode, and asks where they say so: one question at a time."""

    def __init__(
        self,
        *,
        rules: Rules,
        mode: PermissionMode,
        home: Path,
        project: Path,
        cwd: Path,
        roots: Sequence[Path],
        user_home: Path,
        temp: Sequence[Path],
        ask: Ask | None,
        asker: str = "",
        tainted: Callable[[], bool] = lambda: False,
        sandbox: Sandbox | None = None,
        sandbox_forced: bool = False,
        emit: Emit = silent,
        keep_first: KeepFirst | None = None,
    ) -> None:
        self._rules = rules
        self._mode = mode
        self._home = home
        self._project = project
        self._cwd = cwd
        self._roots = tuple(roots)
        self._user_home = user_home
        self._temp = tuple(temp)
        self._ask = ask
        self._asker = asker
        self._tainted = tainted
        self._sandbox = sandbox
        self._sandbox_forced = sandbox_forced
        self._emit = emit
        self._keep_first = keep_first
        self._session: tuple[Rule, ...] = ()
        self._saved: tuple[Rule, ...] | None = None
        self._turn = asyncio.Lock()

    @classmethod
    def from_config(
        cls,
        settings: PermissionSettings,
        *,
        home: Path,
        project: Path,
        cwd: Path,
        roots: Sequence[Path],
        ask: Ask | None,
        asker: str = "",
        tainted: Callable[[], bool] = lambda: False,
        sandbox: Sandbox | None = None,
        sandbox_forced: bool = False,
        emit: Emit = silent,
        keep_first: KeepFirst | None = None,
    ) -> "PersonGate":
        """A gate with the config's rules. `sandbox` is where commands are tried, None: nowhere;
        `sandbox_forced`: in mode `full` too, and nothing runs where it does not hold.

        Raises: ConfigError for a text that is no rule.
        """
        return cls(
            rules=Rules(
                deny=parse_all(settings.deny),
                ask=parse_all(settings.ask),
                allow=parse_all(settings.allow),
            ),
            mode=settings.mode,
            home=home,
            project=project,
            cwd=cwd,
            roots=roots,
            user_home=Path(os.path.expanduser("~")),
            temp=(Path(tempfile.gettempdir()),),
            ask=ask,
            asker=asker,
            tainted=tainted,
            sandbox=sandbox,
            sandbox_forced=sandbox_forced,
            emit=emit,
            keep_first=keep_first,
        )

    @property
    def mode(self) -> PermissionMode:
        return self._mode

    def set_mode(self, mode: PermissionMode) -> None:
        """Takes effect with the next check, one that waits for its question included."""
        self._mode = mode

    @property
    def approved_in_session(self) -> tuple[str, ...]:
        """The rules that answers of "session" have added."""
        return tuple(str(rule) for rule in self._session)

    def approve_in_session(self, rules: Sequence[str]) -> None:
        """Adds rules as an answer of "session" does. Raises: ConfigError for a bad rule."""
        self._session = tuple(dict.fromkeys((*self._session, *parse_all(rules))))

    def describe_rules(self) -> tuple[str, ...]:
        """One line a rule, with where it came from, for a person."""
        return (
            *(f"deny {rule}" for rule in self._rules.deny),
            *(f"ask {rule}" for rule in self._rules.ask),
            *(f"allow {rule}" for rule in self._rules.allow),
            *(f"allow {rule} (this session)" for rule in self._session),
            *(f"allow {rule} (saved for this project)" for rule in self._approved_before()),
        )

    async def check(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> Verdict:
        """Decides a call; see `contracts.Gate`. Raises: ToolError when its preview fails."""
        if tool.effect == "run" and self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.holds)  # the first time, it is tried out
        decision = self._decide(tool, arguments, context)
        if decision.outcome != "ask":
            return _verdict(decision)
        if self._ask is None:
            return _with_nobody(decision)
        preview = tool.preview(context, arguments) if tool.preview else ""
        async with self._turn:
            # Another call's answer, or a new mode, may have settled it meanwhile.
            decision = self._decide(tool, arguments, context)
            if decision.outcome != "ask":
                return _verdict(decision)
            kept = ""
            if self._keep_first is not None and decision.dangers:
                kept = await self._keep_first(decision.at_stake)
            question = self._question(tool, arguments, preview, decision)
            question = replace(question, reason=f"{question.reason}\n{visible(kept)}".strip())
            return self._answered(await self._ask(question), decision)

    async def check_changes(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        changes: Sequence[FileChange],
        diff: str,
        *,
        may_ask: bool,
    ) -> Kept:
        """See `contracts.Gate`: each change is decided like an edit of that file by a tool."""
        if self._mode == "plan":
            return Kept(changes=(), reason="Nothing is changed in mode plan.")
        async with self._turn:
            decided = await asyncio.to_thread(
                lambda: [
                    (one, self._decide_change(tool, arguments, context, one)) for one in changes
                ]
            )
            allowed = tuple(one for one, decision in decided if decision.outcome == "allow")
            asked = [pair for pair in decided if pair[1].outcome == "ask" and not pair[0].ignored]
            refused = [decision for one, decision in decided if decision.outcome == "deny"]
            reason = " ".join(dict.fromkeys(decision.reason for decision in refused))
            if not asked:
                return Kept(changes=allowed, reason=reason)
            if self._ask is None or not may_ask:
                return Kept(changes=allowed, reason=_nobody(asked[0][1]))
            question = self._question_about_changes(arguments, asked, diff)
            answer = await self._ask(question)
            if answer.choice == "no":
                return Kept(changes=allowed, reason=_refusal(answer))
            if answer.choice == "session":
                self.approve_in_session(question.rules)
            kept = {one.path for one, _ in asked} | {one.path for one in allowed}
            return Kept(changes=tuple(c for c in changes if c.path in kept), reason=reason)

    async def check_outside(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        hits: Sequence[str],
    ) -> Verdict:
        """See `contracts.Gate`."""
        decision = again_outside(self._call(tool, arguments, context), hits)
        if self._mode == "plan":
            return Verdict(allowed=False, reason="In mode plan it does not run outside of it.")
        if self._ask is None:
            return _with_nobody(replace(decision, runs_unasked=False))
        async with self._turn:
            question = self._question(tool, arguments, "", decision)
            question = replace(question, title="Run it again without the sandbox")
            return self._answered(await self._ask(question), decision)

    def _decide_change(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        change: FileChange,
    ) -> Decision:
        edit = replace(tool, name="edit", effect="edit")
        # What a command wrote may come from anywhere.
        call = replace(self._call(edit, {"path": change.path}, context), taint=True)
        decision = decide_call(call)
        free = self._mode in ("auto-edit", "full")
        if decision.outcome == "ask" and change.ignored and not free:
            return replace(decision, outcome="deny", reason="")  # it stays in the sandbox
        return decision

    def _question_about_changes(
        self,
        arguments: Mapping[str, Any],
        asked: Sequence[tuple[FileChange, Decision]],
        diff: str,
    ) -> Question:
        command = str(arguments.get("command", ""))
        names = [f"{one.change} {os.path.relpath(one.path, self._cwd)}" for one, _ in asked]
        default = "Edits are asked about in this mode."
        reasons = [decision.reason for _, decision in asked if decision.reason != default]
        rules = dict.fromkeys(rule for _, decision in asked for rule in decision.rules_offered)
        every = all(decision.rules_offered for _, decision in asked)
        return Question(
            tool="shell",
            subject=visible(command),
            title=visible(f"Keep what `{_short(command)}` changed"),
            preview=visible("\n".join(names) + "\n\n" + diff if diff else "\n".join(names)),
            reason=visible(
                "\n".join(dict.fromkeys(reasons))
                or "It ran on a copy of the project: /undo takes back what you keep."
            ),
            kind="keep",
            asker=visible(self._asker),
            may_always=every and len(rules) == 1,
            rules=tuple(map(visible, rules)) if every and len(rules) == 1 else (),
        )

    def _decide(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Decision:
        """A path is judged as written and as the real path the tool is bound to: the links on the
        way may be swapped at any moment, and rules can be about either."""
        written = self._decide_on(tool, arguments, context)
        path = context.judged_path
        if not path or arguments.get("path") == path:
            return written
        real = self._decide_on(tool, {**arguments, "path": path}, context)
        return max(written, real, key=lambda decision: _SEVERITY.index(decision.outcome))

    def _decide_on(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> Decision:
        return decide_call(self._call(tool, arguments, context))

    def _call(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Call:
        return make_call(
            replace(self._rules, approved=(*self._session, *self._approved_before())),
            self._mode,
            tool,
            arguments,
            cwd=context.cwd,
            roots=context.roots or self._roots,
            project=self._project,
            user_home=self._user_home,
            protected=(*context.protected, self._home),
            temp=self._temp,
            readable=(context.output_dir, *context.readable),
            taint=self._tainted(),
            sandbox=self._sandbox_kind() if tool.effect == "run" else "none",
            sandbox_forced=self._sandbox_forced,
        )

    def _sandbox_kind(self) -> SandboxKind:
        if self._sandbox is None or not self._sandbox.holds():
            return "none"
        return "layered" if self._sandbox.layered() else "plain"

    def _approved_before(self) -> tuple[Rule, ...]:
        if self._saved is None:
            self._saved, problem = approvals.load(self._home, self._project)
            if problem:
                self._emit(Notice(text=problem))
        return self._saved

    def _question(
        self, tool: Tool, arguments: Mapping[str, Any], preview: str, decision: Decision
    ) -> Question:
        value = arguments.get(tool.subject, "") if tool.subject else ""
        subject = value if isinstance(value, str) else repr(value)
        return Question(
            tool=tool.name,
            subject=visible(subject),
            title=_TITLES.get(tool.effect, f"Use {tool.name}"),
            preview=visible(preview or _shown(tool, arguments, subject)),
            reason=visible(decision.reason),
            dangers=tuple(map(visible, decision.dangers)),
            kind=f"{tool.effect} {decision.risk}".strip(),
            asker=visible(self._asker),
            may_always=bool(decision.rules_offered),
            rules=tuple(visible(rule) for rule in decision.rules_offered),
        )

    def _answered(self, answer: Answer, decision: Decision) -> Verdict:
        if answer.choice == "no":
            return Verdict(allowed=False, reason=_refusal(answer))
        offered = tuple(parse(text) for text in decision.rules_offered)
        if answer.choice == "session":
            self._session = tuple(dict.fromkeys((*self._session, *offered)))
        if answer.choice == "project":
            self._save(offered)
        return Verdict(
            allowed=True,
            reason="The person allowed it.",
            at_stake=decision.at_stake,
            untrusted=decision.untrusted,
            reads=decision.reads,
        )

    def _save(self, offered: tuple[Rule, ...]) -> None:
        """Saved approvals count at once; one that cannot be saved counts for this session."""
        self._saved = tuple(dict.fromkeys((*self._approved_before(), *offered)))
        try:
            approvals.add(self._home, self._project, offered)
        except KodeError as error:
            self._emit(Notice(text=f"The approval counts for this session only. {error}"))


_TITLES = {
    "read": "Read a file",
    "edit": "Change a file",
    "run": "Run a command",
    "fetch": "Fetch a page",
    "memory": "Change memory",
    "delegate": "Start subagents",
}

_SEVERITY = ("allow", "ask", "deny")

_KEPT = frozenset("\n\t")
"""Control characters that a question may hold as they are."""

_LOOKS_EMPTY = frozenset(
    "\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f\U0001d159"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Letters and marks that count as printable, and show nothing."""

_RUNS = re.compile(r"\t{3,}| {24,}(?=\S)|(?:\n[ \t]*){9,}(?=\n)")


def visible(text: str) -> str:
    """The text with every character that does not print (controls, escapes, bidirectional and
    zero-width marks) as `\\x1b` or `\\u202e`. Line feeds and single tabs stay; a run of tabs, of
    many spaces or of empty lines, which can push text off a screen, is spelt out."""
    shown = "".join(
        c
        if c in _KEPT or (c.isprintable() and c not in _LOOKS_EMPTY)
        else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )
    return _RUNS.sub(_spelt_run, shown)


def _spelt_run(run: re.Match[str]) -> str:
    if run[0].startswith("\t"):
        return "\\t" * len(run[0])
    if run[0].startswith("\n"):
        return f"\n[{run[0].count(chr(10))} empty lines]"
    return f" [{len(run[0])} spaces] "


def _verdict(decision: Decision) -> Verdict:
    return Verdict(
        allowed=decision.outcome == "allow",
        reason=decision.reason,
        at_stake=decision.at_stake,
        sandboxed=decision.sandboxed,
        untrusted=decision.untrusted,
        reads=decision.reads,
    )


BY_PERSON = "The person refused this."
"""How a refusal begins that a person has spoken, for whoever shows the result of a call."""


def _refusal(answer: Answer) -> str:
    words = f' They say: "{answer.message.strip()}".' if answer.message.strip() else ""
    return (
        f"{BY_PERSON}{words} Do not try it another way; do something else, or ask what they want."
    )


def _nobody(decision: Decision) -> str:
    flag = f" It would be kept with {decision.hint}." if decision.hint else ""
    return f"Nobody is here to be asked. {decision.reason}{flag}"


def path_denier(settings: PermissionSettings, *, project: Path, cwd: Path) -> Callable[[str], bool]:
    """Whether a rule keeps a path from being read, for what shows no words to judge by. Raises:
    ConfigError for a text that is no rule."""
    rules = [rule for rule in parse_all(settings.deny) if rule.kind == "read" and rule.pattern]
    home = Path(os.path.expanduser("~"))

    def is_denied(path: str) -> bool:
        return any(
            grammar.matches_path(rule, path, project=project, user_home=home, loosely=True)
            for rule in rules
        )

    return is_denied if rules else lambda path: False


def _short(command: str) -> str:
    line = command.strip().partition("\n")[0]
    return line if len(line) <= 60 else line[:59] + "…"


def _with_nobody(decision: Decision) -> Verdict:
    if decision.runs_unasked:
        return Verdict(
            allowed=True,
            reason="The mode allows it.",
            at_stake=decision.at_stake,
            untrusted=decision.untrusted,
            reads=decision.reads,
        )
    flag = f" It would run with {decision.hint}." if decision.hint else ""
    return Verdict(
        allowed=False,
        reason=f"Refused, because nobody is here to be asked. "
        f"{' '.join((*decision.dangers, decision.reason)).strip()}{flag} "
        "Continue without it, or say in your answer what is needed.",
    )


def _shown(tool: Tool, arguments: Mapping[str, Any], subject: str) -> str:
    """What a call without a preview is about: its one subject, or all arguments, whole."""
    if tool.effect in ("run", "fetch", "read"):
        return subject
    lines = []
    for name, value in arguments.items():
        if value is not None:
            lines.append(f"{name}: {value if isinstance(value, str) else repr(value)}")
    return "\n".join(lines)
