"""The input of a decision, the call with its rules; and how its outcomes are made."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kode.messages import RefusedBy
from kode.permissions import places
from kode.permissions import rules as grammar
from kode.permissions.modes import PermissionMode
from kode.permissions.rules import Rule, Rules
from kode.tool import Consent, Decision, Tool
from kode.workplace import Workplace, as_seen, below

if TYPE_CHECKING:
    from kode.sandbox.values import SandboxKind


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call with everything that decides about it."""

    rules: Rules
    mode: PermissionMode
    tool: Tool
    arguments: Mapping[str, Any]
    place: Workplace
    where: places.PathRules
    """Of `place`."""
    taint: bool = False
    """Whether the session has read outside text."""
    by_command: bool = False
    """Whether a command has made the edit, so that nobody has seen where the text is from."""
    makes_link: bool = False
    """Whether the edit puts a symlink there, which may stand for a folder."""
    ignored: str = ""
    """See `FileChange.ignored`."""
    is_dependency: bool = False
    """Whether the edit brings something into a folder of installed packages."""
    sandbox: "SandboxKind" = "none"
    sandbox_forced: bool = False
    """Whether commands run in it in mode `full` too, and not at all without one."""
    sandbox_network: bool = False
    """Whether commands in it use this machine's network."""

    def first(self, among: Sequence[Rule], matches: Callable[[Rule], bool]) -> Rule | None:
        """The first rule about this tool that matches."""
        for rule in among:
            if grammar.names_tool(rule, self.tool) and matches(rule):
                return rule
        return None

    def path_rule(self, among: Sequence[Rule], path: str, *, loosely: bool) -> Rule | None:
        if not among:
            return None
        return self.first(among, lambda rule: self.rule_has_path(rule, path, loosely=loosely))

    def rule_has_path(self, rule: Rule, path: str, *, loosely: bool) -> bool:
        project, user_home = self.place.project, self.place.user_home
        return grammar.matches_path(
            rule, path, project=project, user_home=user_home, loosely=loosely
        )


def by_rule(
    call: Call, matches: Callable[[Rule], bool], loosely: Callable[[Rule], bool] | None = None
) -> Decision | None:
    """The decision by the first matching rule; `loosely` matches deny and ask rules."""
    denied = call.first(call.rules.deny, loosely or matches)
    if denied:
        return deny_by(denied)
    asked = call.first(call.rules.ask, loosely or matches)
    if asked:
        return ask_by(asked)
    allowed = call.first(call.rules.allow, matches)
    return allow(f"The rule {allowed} allows it.") if allowed else None


def allow(reason: str) -> Decision:
    return Decision(outcome="allow", reason=reason)


def deny(reason: str, *, by: RefusedBy = "rule") -> Decision:
    return Decision(outcome="deny", reason=reason, by=by)


def deny_by(rule: Rule) -> Decision:
    return deny(rule.why or f"The rule `deny {rule}` forbids it.")


def deny_plan(what: str) -> Decision:
    return deny(
        f"{what} is not allowed in mode `plan`, where nothing may change. "
        "Describe what you would do instead.",
        by="mode",
    )


def ask(reason: str, flag: str = "", *rules: str, **values: Any) -> Decision:
    """`values`: the other fields of `Consent`."""
    return Decision(outcome="ask", reason=reason, consent=Consent(flag=flag, rules=rules, **values))


def ask_by(rule: Rule) -> Decision:
    return ask(f"The rule `ask {rule}` says so.")


def shown(call: Call, path: str) -> str:
    if below(path, call.where.cwd):
        return os.path.relpath(path, call.where.cwd)
    return as_seen(call.place, path)
