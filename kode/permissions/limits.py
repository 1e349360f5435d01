"""The limits of a turn that a command started: which calls may run, whatever else allows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from kode import paths
from kode.permissions import rules as grammar
from kode.permissions import sensitive
from kode.permissions.decision import deny
from kode.permissions.rules import Rule, parse_all
from kode.tool import Action, Decision, Interceptor, Tool
from kode.workplace import Workplace


def limited_to(only: Sequence[str], place: Workplace) -> Interceptor:
    """Refuses calls that none of these rules match. A call that touches nothing outside the session
    needs no rule. If a rule is about commands, another command runs if mode `plan` would let it.

    Raises: ConfigError for a bad rule.
    """
    rules, where = parse_all(only), sensitive.ground(place)
    named = ", ".join(only) or "no tools"
    reason = f"The command that started this turn allows only {named}. Use those."

    def is_named(tool: Tool, arguments: Mapping[str, Any]) -> bool:
        about = [rule for rule in rules if grammar.names_tool(rule, tool)]
        if any(not rule.pattern for rule in about):
            return True
        if tool.effect == "run":
            from kode.permissions.shell import judge

            parts = judge(str(arguments.get("command")), where).parts
            return all(any(grammar.matches_argv(r, part.argv) for r in about) for part in parts)
        return any(_matches(rule, arguments, place) for rule in about)

    async def intercept(action: Action) -> Decision | None:
        effect = action.tool.effect
        if effect == "none" or is_named(action.tool, action.arguments):
            return None
        if effect == "run" and any(rule.kind == "shell" for rule in rules):
            return Decision(outcome="allow", reason=reason, run_in="read_only")
        return deny(reason)

    return intercept


def _matches(rule: Rule, arguments: Mapping[str, Any], place: Workplace) -> bool:
    if rule.kind == "fetch":
        return grammar.matches_url(rule, str(arguments.get("url")))
    path = paths.expand(str(arguments.get("path") or "."))
    return grammar.matches_path(
        rule,
        str(place.cwd / path),
        project=place.project,
        user_home=place.user_home,
        loosely=False,
    )
