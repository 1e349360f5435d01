"""Decides whether a call may run: a pure function of rules, mode, tool and arguments (it reads
symlinks only).

Deny beats ask beats allow. A rule the user wrote is never overridden by a heuristic, with four
exceptions, in this order:

1. Nothing writes to kode's own folders (`$KODE_HOME`), whatever rules and mode say.
2. In mode `plan` nothing runs that changes something, whatever is allowed.
3. A `shell(...)` rule covers only commands whose words are known: `$X status` matches nothing.
4. In a session that read untrusted text, what goes into memory is shown first.

`decide_files` judges files, `decide_commands` command lines, this module the rest, and the
limits of a turn that a command started. `gate` asks, and remembers the answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kode import paths
from kode.permissions import decide_files, places
from kode.permissions import rules as grammar
from kode.permissions.decision import Call, allow, ask, by_rule, deny, deny_by, deny_plan
from kode.permissions.rules import Rule, parse_all
from kode.tool import Action, Decision, Effect, Interceptor, Tool
from kode.workplace import Workplace


def decide_call(call: Call) -> Decision:
    """Whether a call may run, must be asked about, or is refused. Never raises."""
    denied = _denied_outright(call)
    if denied is not None:
        return denied
    return _BY_EFFECT[call.tool.effect_on(call.arguments)](call)


def _edit(call: Call) -> Decision:
    reading = replace(call.tool, name="read_file", effect="read", effect_of=None)
    may_read = decide_call(replace(call, tool=reading)).outcome == "allow"
    return replace(decide_files.edit(call), must_read_first=not may_read)


def _run(call: Call) -> Decision:
    from kode.permissions import decide_commands  # half of the gate's code and tables

    return decide_commands.run(call)


def _denied_outright(call: Call) -> Decision | None:
    """A deny rule for the whole tool."""
    rule = call.first(call.rules.deny, lambda rule: not rule.pattern)
    return deny_by(rule) if rule else None


def _fetch(call: Call) -> Decision:
    value = call.arguments.get("url")
    url = value if isinstance(value, str) else ""

    def matches(rule: Rule) -> bool:
        return grammar.matches_url(rule, url)

    ruled = by_rule(call, matches)
    if ruled is not None:
        return ruled
    if call.mode == "full":
        return allow("The mode allows it.")
    if call.first(call.rules.approved, matches):
        return allow("You allowed it before.")
    host = grammar.host_of(url)
    if not host:
        return ask("Fetches a page from another machine.", "--allow 'fetch'")
    rule = f"fetch({host})"
    offered = () if "*" in host else (rule,)  # else it would be about other hosts
    return ask(f"Fetches a page from {host}.", f"--allow '{rule}'", *offered)


def _mcp(call: Call) -> Decision:
    """What a server says about its own tools (read-only, harmless) changes nothing here."""
    target = call.tool.target(call.arguments) if call.tool.target else ""

    def matches(rule: Rule) -> bool:
        return grammar.matches_mcp(rule, target)

    # As shown to the person: a server may call its tool `delete.all`, the model never can.
    shown = call.tool.name.removeprefix("mcp__").replace("__", ":", 1)

    def names(rule: Rule) -> bool:
        return matches(rule) or grammar.matches_mcp(rule, shown)

    ruled = by_rule(call, matches, names)
    if call.mode == "plan" and (ruled is None or ruled.outcome != "deny"):
        return deny_plan("A tool of an MCP server, which may change anything,")
    if ruled is not None:
        return ruled
    if call.mode == "full":
        return allow("The mode allows it.")
    if call.first(call.rules.approved, matches):
        return allow("You allowed it before.")
    rule = f"mcp({target})"
    server, _, name = target.partition(":")
    reason = f"kode cannot tell what {name} does: it is a tool of the MCP server {server}."
    return ask(reason, f"--allow '{rule}'", rule)


def _memory_read(call: Call) -> Decision:
    ruled = by_rule(call, lambda rule: True)
    if ruled is not None and ruled.outcome != "allow":
        return ruled
    return allow("Memory is the agent's own.")


def _memory(call: Call) -> Decision:
    ruled = _memory_read(call)
    if ruled.outcome == "allow" and call.mode == "plan":
        return deny_plan("Writing to memory")
    if ruled.outcome == "allow" and call.taint:
        return ask("This session has read outside text. Check the change to memory.")
    return ruled


def _delegate(call: Call) -> Decision:
    ruled = by_rule(call, lambda rule: True)
    if ruled is not None:
        return ruled
    if call.mode == "full" or call.first(call.rules.approved, lambda rule: True):
        return allow("The mode or an earlier answer allows it.")
    reason = "Starts subagents; they have the same permissions."
    return ask(reason, "--allow delegate", "delegate")


def _none(call: Call) -> Decision:
    return by_rule(call, lambda rule: True) or allow("It touches nothing outside the session.")


_BY_EFFECT: dict[Effect, Callable[[Call], Decision]] = {
    "read": decide_files.read,
    "edit": _edit,
    "run": _run,
    "fetch": _fetch,
    "mcp": _mcp,
    "memory": _memory,
    "memory-read": _memory_read,
    "delegate": _delegate,
    "none": _none,
}


def limited_to(only: Sequence[str], place: Workplace) -> Interceptor:
    """Refuses calls that none of these rules match. A call that touches nothing outside the session
    needs no rule. If a rule is about commands, another command runs if mode `plan` would let it.

    Raises: ConfigError for a bad rule.
    """
    rules, where = parse_all(only), places.path_rules(place)
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
        return any(_matches_file_or_page(rule, arguments, place) for rule in about)

    async def intercept(action: Action) -> Decision | None:
        effect = action.tool.effect
        if effect == "none" or is_named(action.tool, action.arguments):
            return None
        if effect == "run" and any(rule.kind == "shell" for rule in rules):
            return Decision(outcome="allow", reason=reason, run_in="read_only")
        return deny(reason)

    return intercept


def _matches_file_or_page(rule: Rule, arguments: Mapping[str, Any], place: Workplace) -> bool:
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
