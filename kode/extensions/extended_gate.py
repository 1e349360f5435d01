"""The gate extended by a command's limits and by hooks before a call. These only deny, or act as a
rule of the person: rules, mode and person decide as always."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kode.contracts import FileChange, Kept, Opinion, Tool, ToolContext, Verdict
from kode.extensions.hook_moments import Hooks
from kode.permissions import rules as grammar
from kode.permissions.decide import decide_call
from kode.permissions.decision import Call
from kode.permissions.gate import PersonGate, verdict
from kode.permissions.rules import Rule, parse_all


@dataclass(kw_only=True)
class ExtendedGate(PersonGate):
    """See `contracts.Gate`."""

    only: tuple[str, ...] | None = None
    hooks: Hooks | None = None

    def could_run(self, tool: Tool) -> bool:
        """See `contracts.Gate`: a hook may allow what no rule does."""
        return super().could_run(tool) or (self.hooks is not None and self.hooks.judge_calls)

    async def check(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> Verdict:
        said: Verdict | Opinion | None = None
        if self.hooks is not None:
            said = await self.hooks.before_call(tool, arguments, context)
        if isinstance(said, Verdict):
            return said
        if not self._is_named(tool, arguments):
            return await self._only_reading(tool, arguments)
        return await super().check(tool, arguments, replace(context, opinion=said))

    async def check_changes(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        changes: Sequence[FileChange],
        diff: str,
        *,
        may_ask: bool,
    ) -> Kept:
        """See `contracts.Gate`: changes by a command outside the limits are dropped."""
        if not self._is_named(tool, arguments):
            return Kept(changes=(), reason=self._limits())
        return await super().check_changes(tool, arguments, changes, diff, may_ask=may_ask)

    async def check_outside(
        self, tool: Tool, arguments: Mapping[str, Any], hits: Sequence[str]
    ) -> Verdict:
        """See `contracts.Gate`: a command outside the limits stays in the sandbox."""
        if not self._is_named(tool, arguments):
            return Verdict(allowed=False, reason=self._limits())
        return await super().check_outside(tool, arguments, hits)

    def _limits(self) -> str:
        allowed = ", ".join(self.only or ()) or "no tools"
        return f"The command that started this turn allows only {allowed}. Use those."

    async def _only_reading(self, tool: Tool, arguments: Mapping[str, Any]) -> Verdict:
        """Decides a call outside the limits: a command may run if mode `plan` would let it."""
        runs = tool.effect == "run" and any(rule.kind == "shell" for rule in self._rules())
        if not runs:
            return Verdict(allowed=False, reason=self._limits())
        if self.sandbox is not None:
            await asyncio.to_thread(self.sandbox.holds)
        call = self._call(tool, arguments)
        decision = decide_call(
            replace(call, mode="plan", rules=replace(call.rules, allow=(), approved=()))
        )
        if decision.outcome != "allow":
            return Verdict(allowed=False, reason=self._limits())
        return verdict(decision)

    def _rules(self) -> tuple[Rule, ...]:
        return parse_all(self.only or ())

    def _is_named(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Whether a rule of `only` matches this call, or there are none; a call that touches
        nothing outside the session needs none."""
        if self.only is None or tool.effect == "none":
            return True
        about = [rule for rule in self._rules() if grammar.names_tool(rule, tool)]
        if any(not rule.pattern for rule in about):
            return True
        call = self._call(tool, arguments)
        if tool.effect == "run":
            from kode.permissions.shell import judge

            parts = judge(str(arguments.get("command")), call.where).parts
            return all(any(grammar.matches_argv(r, part.argv) for r in about) for part in parts)
        return any(_matches(call, rule) for rule in about)


def _matches(call: Call, rule: Rule) -> bool:
    if rule.kind == "fetch":
        return grammar.matches_url(rule, str(call.arguments.get("url")))
    path = os.path.expanduser(str(call.arguments.get("path") or "."))
    return call.rule_has_path(rule, os.path.join(call.place.cwd, path), loosely=False)
