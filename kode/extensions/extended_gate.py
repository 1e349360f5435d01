"""The gate with what extensions add: the limits of a command, and hooks before a call. They take
away, or say what a rule of the person could: rules, mode and person decide as always.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kode.contracts import Tool, ToolContext, Verdict
from kode.extensions.hook_moments import Hooks
from kode.permissions import rules as grammar
from kode.permissions.decide import decide_call
from kode.permissions.decision import Call
from kode.permissions.gate import PersonGate
from kode.permissions.rules import Rule, Rules, parse_all


@dataclass(kw_only=True)
class ExtendedGate(PersonGate):
    """See `contracts.Gate`."""

    only: tuple[str, ...] | None = None
    hooks: Hooks | None = None

    async def check(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext
    ) -> Verdict:
        """Decides a call; see `contracts.Gate`. Raises: ToolError when its preview fails."""
        if self.only is not None and not self._is_named(parse_all(self.only), tool, arguments):
            allowed = ", ".join(self.only) or "no tools"
            reason = f"The command that began this turn allows only {allowed}. Do it with these."
            return Verdict(allowed=False, reason=reason)
        if self.hooks is None:
            return await super().check(tool, arguments, context)
        said = await self.hooks.before_call(tool, arguments, context)
        if isinstance(said, Verdict):
            return said
        return await super().check(tool, arguments, replace(context, opinion=said))

    def _is_named(self, rules: tuple[Rule, ...], tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Whether one of the rules is about this call; what touches nothing outside the session
        needs none."""
        about = [rule for rule in rules if grammar.names_tool(rule, tool)]
        if tool.effect == "none" or any(not rule.pattern for rule in about):
            return True
        call = self._call(tool, arguments)
        if tool.effect == "run":
            # Each part of the line has to be one of theirs, or plainly read.
            limits = replace(call, rules=Rules(allow=rules), mode="ask", sandbox="none")
            return bool(about) and decide_call(limits).outcome == "allow"
        return any(_matches(call, rule) for rule in about)


def _matches(call: Call, rule: Rule) -> bool:
    if rule.kind == "fetch":
        return grammar.matches_url(rule, str(call.arguments.get("url")))
    path = os.path.expanduser(str(call.arguments.get("path") or "."))
    return call.rule_has_path(rule, os.path.join(call.place.cwd, path), loosely=False)
