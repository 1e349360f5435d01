"""The gate that asks a person: turns decisions into questions, and answers into decisions and
approvals.

`decide` says what needs a question; the screen draws it.
"""

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import paths
from kode.errors import KodeError, SandboxUnknownError
from kode.events import Emit, Notice, no_emit
from kode.messages import cut_list, plural, shorten
from kode.permissions import approvals, places
from kode.permissions.approvals import StandingRule
from kode.permissions.decide import Call, ask, ask_outside, decide_call, deny
from kode.permissions.names import PermissionMode
from kode.permissions.question import Ask, Question
from kode.permissions.rules import Rule, Rules, matches_path, names_tool, parse_all
from kode.tool import Action, Blocked, Decision, FileChange, Tool, ToolContext, group_changes
from kode.values import dataclass, field, replace
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.sandbox.sandbox import Sandbox

MAX_RULES = 3  # that one question offers
MAX_NAMED_CHARS = 60  # a title of one line
MAX_REASONS = 10  # and flags that one refusal names

Decided = list[tuple[FileChange, Decision]]


@dataclass(kw_only=True)
class GateState:
    """What changes during a session; copies of a gate share it."""

    mode: PermissionMode
    denied: tuple[Rule, ...] = ()  # by a plug-in, for the session
    approved: tuple[StandingRule, ...] = ()
    """The rules that answers for this session added."""
    problem: str = ""
    """What is wrong with the project's file of approvals, once the person was told."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a person is asked: one question at a time."""


@dataclass(kw_only=True)
class Gate:
    """Decides by rules and mode, and asks a person if they say so, one question at a time."""

    rules: Rules
    state: GateState
    place: Workplace
    ask: Ask | None = None
    """None if nobody can be asked."""
    tainted: Callable[[], bool] = lambda: False
    """Whether the session has read outside text."""
    sandbox: "Sandbox | None" = None
    """Where commands that nobody approved run; None: nowhere."""
    sandbox_forced: bool = False
    """Whether commands run in the sandbox even in mode `full`, and are refused without it."""
    emit: Emit = no_emit

    @property
    def approved_in_session(self) -> tuple[str, ...]:
        """The rules that answers for this session added, without those that were removed."""
        return tuple(str(approval.rule) for approval in self.state.approved if not approval.removed)

    def approve_in_session(self, rules: Sequence[str]) -> None:
        """Adds rules as an answer for the session does. Raises: ConfigError for a bad rule."""
        self.state.approved = approvals.add_rules(self.state.approved, parse_all(rules), "session")

    def standing_rules(self) -> tuple[StandingRule, ...]:
        """The rules of the settings and all approvals, removed ones too; not what plug-ins deny."""
        return (*approvals.find_standing(self.rules), *self._read_approvals())

    def change_approvals(self, *, remove: str = "", restore: str = "") -> None:
        """Removes or restores an approval: of the session if one matches, else of the project; see
        `approvals.change_named`. Raises: what that and `approvals.change` raise."""
        session, name = self.state.approved, remove or restore
        update = functools.partial(approvals.change_named, remove=remove, restore=restore)
        if any(name in (approval.id, str(approval.rule)) for approval in session):
            self.state.approved = update(session, source="session")
        else:
            approvals.change(self.place.home, self.place.project, update)

    def could_run(self, tool: Tool) -> bool:
        """Whether a call of this tool can be allowed in this process, by a rule or a person's
        answer. True for every tool that neither fetches nor delegates."""
        can_allow = self.ask is not None or self.state.mode == "full"
        return (
            can_allow
            or tool.effect not in ("fetch", "delegate")
            or any(names_tool(rule, tool) for rule in (*self.rules.allow, *self._read_approved()))
        )

    async def judge(self, action: Action, context: ToolContext) -> Decision:
        """Decides an action, asking a person where the rules require it; one question at a time.
        The outcome is never `ask`. Raises: ToolError when the call cannot succeed anyway (its
        preview failed)."""
        if action.tool.effect == "run" and self.sandbox is not None and not self.sandbox.is_tried:
            with contextlib.suppress(SandboxUnknownError):  # `kind` then returns `unknown`
                await asyncio.to_thread(self.sandbox.support)
        advice, decision = action.advice, self.decide(action)
        if advice is not None and advice.run_in == "read_only":
            reason = advice.reason
            return replace(decision, reason=reason) if decision.is_allowed else deny(reason)
        if decision.outcome != "ask":
            return decision
        if self.ask is None:
            return _refuse_alone(decision)
        preview = ""
        if action.tool.preview:
            preview = action.tool.preview(replace(context, decision=decision), action.arguments)
        async with self.state.turn:
            # The answer to another call, or a new mode, may have settled it meanwhile.
            decision = self.decide(action)
            if decision.outcome != "ask":
                return decision
            reason = "\n".join(filter(None, (decision.reason, action.change)))
            diff = preview if action.tool.effect == "edit" else ""
            shown = {"preview": preview, "diff": diff} if preview else {}
            return await self._ask_person(action, decision, reason=reason, **shown)

    async def judge_changes(
        self, action: Action, changes: Sequence[FileChange], diff: str, *, may_ask: bool
    ) -> Decided:
        """Decides which changes of a sandboxed command to apply, each as if a tool edited that
        file, with one question for all that need one. `diff` is shown to the person."""
        if self.state.mode == "plan":
            return [(it, deny("Mode plan changes nothing.", by="mode")) for it in changes]
        async with self.state.turn:
            decided = await asyncio.to_thread(self._decide_changes, action.tool, changes)
            pending = [pair for pair in decided if pair[1].outcome == "ask"]
            if not pending:
                return decided
            joined = _join_decisions([decision for _, decision in pending])
            if self.ask is None or not may_ask:
                settled = _refuse_alone(joined)
            else:
                first_line = shorten(action.subject.strip().partition("\n")[0], MAX_NAMED_CHARS)
                shown = {"title": f"Keep what `{first_line}` changed", "diff": diff}
                shown["preview"] = "\n\n".join(filter(None, (self._name_changes(pending), diff)))
                copied = "It ran on a copy of the project: /undo undoes what you keep."
                shown["reason"] = copied if joined.consent.only_mode_asks else joined.reason
                shown |= {"kind": "keep", "of": "changes"}
                settled = await self._ask_person(action, joined, **shown)
            return [(it, settled if made.outcome == "ask" else made) for it, made in decided]

    async def judge_outside(self, action: Action, blocked: Sequence[Blocked]) -> Decision:
        """Decides whether a command that failed in the sandbox because of what was blocked there
        may run again outside it."""
        if self.state.mode == "plan":
            return deny("Mode plan runs nothing outside the sandbox.", by="mode")
        decision = ask_outside(self._call(action), blocked)
        if self.ask is None:
            return _refuse_alone(decision)
        async with self.state.turn:
            title = "Run it again without the sandbox"
            return await self._ask_person(action, decision, title=title, of="outside", kind="run")

    async def confirm(self, tool: str, title: str, preview: str) -> bool:
        """Asks a tool's own question about what its call did; returns whether the person says yes.
        False without asking if nobody can be asked, and in mode `full`."""
        if self.ask is None or self.state.mode == "full":
            return False
        question = Question(tool=tool, title=title, preview=preview, takes_words=False)
        async with self.state.turn:
            return (await self.ask(question)).choice != "no"

    def _decide_changes(self, tool: Tool, changes: Sequence[FileChange]) -> Decided:
        """Decides each change. If a deleted folder has to stay, so does all that was in it."""
        edit = replace(tool, name="edit", effect="edit")
        call = self._call(Action(call_id="", tool=edit, arguments={}))
        # A deletion brings in nothing that could run. But if a command moves packages, the deletion
        # without the rest would lose them.
        installs = any(it.kind == "dependency" and it.change != "deleted" for it in changes)
        refused: dict[str, Decision] = {}
        decided = []
        for change in sorted(changes, key=lambda it: it.path):
            is_gone = change.change == "deleted"
            above = refused.get(os.path.dirname(change.path)) if is_gone else None
            decision = above or _decide_change(call, change, installs)
            if is_gone and decision.outcome != "allow":
                refused[change.path] = decision
            decided.append((change, decision))
        return decided

    def _name_changes(self, pending: Decided) -> str:
        """The changes that a question is about, one per line; git's records share a line."""
        names = list[str]()
        others = [it for it, made in pending if it.kind != "git" or not made.consent.only_mode_asks]
        for group in group_changes(others):
            files = f" ({plural(group.files, 'file')})" if group.is_folder else ""
            names.append(f"{group.change} {os.path.relpath(group.path, self.place.cwd)}{files}")
        return "\n".join(names + ["what git records (.git)"] * (len(others) < len(pending)))

    def decide(self, action: Action) -> Decision:
        """Decides an action by rules, mode and words, without asking anybody. Judges a path both as
        written and as the real path that the tool is bound to: links may be swapped at any moment,
        and rules can be about either."""
        call, path = self._call(action), action.path
        decision = decide_call(call)
        if path and path not in (action.arguments.get("path"), call.path):
            # The real path is the machine's: below `/tmp`, it is not in the session's own.
            place = replace(self.place, private_tmp=lambda: None)
            bound = replace(action, arguments={**action.arguments, "path": path})
            real = decide_call(replace(call, action=bound, place=place))
            must_read = decision.must_read_first or real.must_read_first
            graver = max(decision, real, key=lambda it: ("allow", "ask", "deny").index(it.outcome))
            decision = replace(graver, must_read_first=must_read)
        if action.advice is not None and decision.outcome == "ask":
            return replace(decision, reason=action.advice.reason)
        return decision

    def _call(self, action: Action) -> Call:
        advice, sandbox, mode = action.advice, self.sandbox, self.state.mode
        rules, denied = self.rules, self.state.denied
        rules = replace(rules, deny=(*denied, *rules.deny)) if denied else rules
        approved: Callable[[], Sequence[Rule]] = functools.cache(self._read_approved)
        if advice is not None and advice.run_in == "read_only":
            mode, rules, approved = "plan", replace(rules, allow=()), tuple
        elif advice is not None:
            others = getattr(rules, advice.outcome)
            rules = replace(rules, **{advice.outcome: (*others, Rule(action.tool.name))})
        return Call(
            rules=rules,
            mode=mode,
            action=action,
            place=self.place,
            approved=approved,
            # Looked up once, not for each of thousands of paths.
            where=replace(self._path_rules, named=functools.cache(self.place.named)),
            tainted=self.tainted,
            is_shown=sandbox.shows if sandbox is not None else lambda path: False,
            sandbox=sandbox.kind() if sandbox is not None and action.effect == "run" else "none",
            sandbox_forced=self.sandbox_forced,
            sandbox_network=sandbox is not None and sandbox.grants.network,
        )

    @functools.cached_property
    def _path_rules(self) -> places.PathRules:
        """Computed once: a link swapped in after the first call widens nothing."""
        return places.path_rules(self.place)

    def _read_approved(self) -> list[Rule]:
        return [approval.rule for approval in self._read_approvals() if not approval.removed]

    def _read_approvals(self) -> tuple[StandingRule, ...]:
        """All approvals, those of the project from its file: another kode may have changed them."""
        saved, problem = approvals.load_approvals(self.place.home, self.place.project)
        if problem and problem != self.state.problem:
            self.emit(Notice(text=problem))
        self.state.problem = problem
        return (*self.state.approved, *saved)

    async def _ask_person(self, action: Action, decision: Decision, **fields: Any) -> Decision:
        """Asks about a decision, stores what the answer changes (mode, approvals) and returns the
        new decision; `fields` replace those of the usual question."""
        assert self.ask is not None
        tool, consent = action.tool, decision.consent
        risk = decision.line.risk if decision.line is not None else ""
        question = Question(
            tool=tool.name,
            subject=action.subject,
            title=_TITLES.get(tool.effect, f"Use {tool.name}"),
            preview=_preview_call(action),
            reason=decision.reason,
            kind=f"{tool.effect} {risk}".strip(),
            dangers=consent.dangers,
            rules=consent.rules,
            narrow=consent.narrow_rules,
            passes_in="auto-edit" if consent.only_mode_asks else None,
            arguments=action.arguments,
        )
        answer = await self.ask(replace(question, **fields))
        if answer.choice == "no":
            refusal = deny(answer.message.strip(), by="person")
            return replace(refusal, consent=replace(refusal.consent, decisive=consent.decisive))
        self.state.mode = answer.mode or self.state.mode
        rules = consent.narrow_rules if answer.narrow else consent.rules
        if answer.choice == "session":
            self.approve_in_session(rules)
        if answer.choice == "project":
            try:
                update = functools.partial(approvals.add_rules, rules=parse_all(rules))
                approvals.change(self.place.home, self.place.project, update)
            except KodeError as error:
                self.approve_in_session(rules)
                self.emit(Notice(text=f"The approval counts for this session only. {error}"))
        return replace(decision, outcome="allow", reason="The person allowed it.")


_TITLES = {
    "read": "Read this file?",
    "edit": "Edit this file?",
    "run": "Run this command?",
    "fetch": "Fetch this page?",
    "mcp": "Use this tool of an MCP server?",
    "memory": "Change memory",
    "delegate": "Start subagents",
}

GO_WITHOUT = "Continue without it, or say in your answer what is needed."
"""What the model is told after a refusal with nobody to ask, if nothing better is known."""


def _join_decisions(pending: Sequence[Decision]) -> Decision:
    """Joins decisions to ask into one, with the flags and rules that would allow all of them."""
    consents = [decision.consent for decision in pending]
    others = [decision for decision in pending if not decision.consent.only_mode_asks]
    reasons = [*dict.fromkeys(decision.reason for decision in others or pending)]
    flags = [*dict.fromkeys(consent.flag for consent in consents)]
    rules = tuple(dict.fromkeys(rule for consent in consents for rule in consent.rules))
    if len(rules) > MAX_RULES or not all(consent.rules for consent in consents):
        rules = ()
    flag = " ".join(flags) if all(flags) and len(flags) <= MAX_REASONS else ""
    return ask("\n".join(cut_list(reasons, MAX_REASONS)), flag, *rules, only_mode_asks=not others)


def _refuse_alone(decision: Decision) -> Decision:
    """Settles a question that nobody can be asked: refuses, unless it may run unattended."""
    if decision.consent.runs_unattended:
        return replace(decision, outcome="allow", reason="The mode allows it.")
    consent = replace(decision.consent, instead=decision.consent.instead or GO_WITHOUT)
    reason = " ".join((*consent.dangers, decision.reason)).strip()
    return replace(decision, outcome="deny", by="nobody", reason=reason, consent=consent)


def path_denier(rules: Rules, place: Workplace) -> Callable[[str], bool]:
    """Returns a test whether a rule denies reading a path, for callers without a call to judge."""
    about_files = [rule for rule in rules.deny if rule.kind == "read" and rule.pattern]
    return lambda path: any(matches_path(it, path, place, loosely=True) for it in about_files)


def _decide_change(call: Call, change: FileChange, installs: bool) -> Decision:
    """Decides one change. `call` is an edit without a path; `installs`: packages are added."""
    if change.kind == "cache":
        return deny("Caches stay with the session's commands.")
    whole = change.ignored == f"{change.path}/"  # rules are about its content
    path = os.path.join(change.path, "_") if whole else change.path
    if change.kind == "dependency" and change.change == "deleted" and not installs:
        change = replace(change, kind="work")
    action = replace(call.action, arguments={"path": path})
    decision = decide_call(replace(call, action=action, change=change))
    if decision.outcome == "ask" and not change.is_reported:
        return deny("Nobody is asked about an empty folder.")
    return decision


def paths_to_read(rules: Rules, place: Workplace) -> tuple[Path, ...]:
    """The files, and whole folders, that allow rules name to read; of globs only `FOLDER/**`."""
    allowed = (rule.pattern.removesuffix("/**") for rule in rules.allow if rule.kind == "read")
    named = (text for text in allowed if "/" in text and not set(text) & set("*?["))
    return tuple(Path(paths.real_path(place.project / paths.expand_path(text))) for text in named)


def _preview_call(action: Action) -> str:
    """The preview of a call whose tool makes none: its subject, or all arguments, in full."""
    if action.tool.effect in ("run", "fetch", "read"):
        return action.subject
    arguments = {name: value for name, value in action.arguments.items() if value is not None}
    lines = (f"{name}: {it if isinstance(it, str) else repr(it)}" for name, it in arguments.items())
    return "\n".join(lines)
