"""May this command line run? Each part of it by rules, then by what it would do (`shell`)."""

from collections.abc import Sequence
from dataclasses import replace

from kode.contracts import AtStake, PermissionMode
from kode.permissions import rules as grammar
from kode.permissions import sensitive
from kode.permissions.decision import Call, Decision, allow, ask_by, deny, deny_by, deny_plan
from kode.permissions.rules import Rule
from kode.permissions.shell import Line, Part, Risk, judge

_FREE: dict[PermissionMode, frozenset[Risk]] = {
    "ask": frozenset({"safe"}),
    "plan": frozenset({"safe"}),
    "auto-edit": frozenset({"safe", "write"}),
    "full": frozenset({"safe", "write", "network", "unknown"}),
}

_CONTAINED: frozenset[Risk] = frozenset({"safe", "write", "unknown"})

_REMOTE: frozenset[Risk] = frozenset({"network"})


def run(call: Call) -> Decision:
    command = call.arguments.get("command")
    line = judge(command if isinstance(command, str) else "", call.where)
    decision = _run_line(call, line)
    if decision.outcome == "deny":
        return decision
    stake = _at_stake(line)
    if any(part.risk == "destructive" and not part.writes for part in line.parts):
        stake = replace(stake, discarded=(call.where.cwd,))
    decision = replace(decision, klass=line.risk, at_stake=stake)
    if decision.outcome == "allow" or not any(part.risk in _REMOTE for part in line.parts):
        return decision
    told = " A yes lets it use the network, in the sandbox too." if call.contained else ""
    return replace(decision, reason=decision.reason + told, network=True)


def _at_stake(line: Line) -> AtStake:
    changed: dict[str, None] = {}
    deleted: dict[str, None] = {}
    for part in line.parts:
        (deleted if part.risk == "destructive" else changed).update(dict.fromkeys(part.writes))
    return AtStake(changed=tuple(changed), deleted=tuple(deleted))


def _run_line(call: Call, line: Line) -> Decision:
    for part in line.parts:
        if part.protected:
            return deny(f"`{part.text}` would write in a folder that belongs to kode.")
        denied = _part_rule(call, call.rules.deny, part, loosely=True)
        if denied:
            return deny_by(denied)
    if call.mode == "plan":
        rest = [part for part in line.parts if part.risk != "safe"]
        if rest:
            return deny_plan(f"`{rest[0].text}` (it {rest[0].reason})")
    for part in line.parts:
        asked = _part_rule(call, call.rules.ask, part, loosely=True)
        if asked:
            return ask_by(asked)
    open_parts = [part for part in line.parts if not _part_runs(call, part)]
    if open_parts:
        return _ask_about(call, open_parts)
    if not line.known and any(rule.kind == "shell" for rule in call.rules.deny):
        return _ask_about(call, [part for part in line.parts if part.risk != "safe"])
    return replace(allow("Every part of it may run."), network=_network(call, line))


def _network(call: Call, line: Line) -> bool | None:
    """Whether a command that runs unasked may use the network where there is a sandbox. A rule that
    allows to talk to other machines says so, but not for programs beside it that no rule names."""
    bare = replace(call, contained=False)
    held = [part for part in line.parts if call.contained and not _part_runs(bare, part)]
    remote = [part for part in line.parts if part.risk in _REMOTE]
    others = [part for part in line.parts if part.risk not in ("safe", "write")]
    programs = [part for part in held if part.argv is not None]  # the rest is redirections
    if remote and not programs and all(_named(call, part) for part in (*remote, *others)):
        return True
    return False if held else None


def _named(call: Call, part: Part) -> bool:
    """Whether an allow rule or an answer of before allows it."""
    if _part_rule(call, call.rules.allow, part, loosely=False):
        return True
    grave = part.risk in ("system", "destructive")
    approved = _part_rule(call, call.rules.approved, part, loosely=False)
    return approved is not None and not grave


def _part_runs(call: Call, part: Part) -> bool:
    if part.risk == "safe" or _named(call, part):
        return True
    if call.taint and any(sensitive.steers_agents(path) for path in part.writes):
        return False
    return part.risk in _FREE[call.mode] | (_CONTAINED if call.contained else frozenset())


def _part_rule(call: Call, among: Sequence[Rule], part: Part, *, loosely: bool) -> Rule | None:
    for rule in among:
        if rule.kind == "shell" and grammar.matches_argv(rule, part.argv, loosely=loosely):
            return rule
        if loosely and _touches(call, rule, part):
            return rule
    return None


def _touches(call: Call, rule: Rule, part: Part) -> bool:
    """Whether a command reads or writes a file that a read or edit rule names."""
    if rule.kind not in ("read", "edit") or rule.name not in grammar.FAMILIES or not rule.pattern:
        return False
    paths = part.reads if rule.kind == "read" else part.writes
    return any(call.rule_has_path(rule, path, loosely=True) for path in paths)


def _ask_about(call: Call, parts: Sequence[Part]) -> Decision:
    offers = [part.offer for part in parts]
    named = tuple(
        dict.fromkeys(str(grammar.shell_rule(words, prefix=True)) for words in offers if words)
    )
    hint = " ".join(f"--allow {_quoted(rule)}" for rule in named) if all(offers) else ""
    if all(part.risk in _FREE["auto-edit"] for part in parts) and call.mode != "auto-edit":
        hint = f"{hint} or --permission-mode auto-edit".removeprefix(" or ")
    return Decision(
        outcome="ask",
        reason=" ".join(f"`{part.text}`: it {part.reason}." for part in parts),
        rules_offered=named if all(offers) else (),
        runs_unasked=call.mode == "full"
        and not any(part.secret for part in parts)
        and not any(part.risk == "unknown" for part in parts),
        hint=hint or ("an allow rule" if call.mode == "full" else "--permission-mode full"),
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
