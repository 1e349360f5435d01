"""Decides whether a command line may run, and where. Each part is judged by rules, then by what it
needs outside the sandbox.

A command that nobody approved runs in the sandbox on a copy of the project, and what it changed is
judged afterwards: so only a part that leaves (`Part.leaves`) asks first. Where there is no such
sandbox, names decide (`Part.risk`). Outside the sandbox run only commands that a person allowed, by
an answer or by a rule for every part that does more than read, and commands in mode `full`.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kode.git import git_folder_above
from kode.permissions import places
from kode.permissions import rules as grammar
from kode.permissions.decision import Call, allow, ask, ask_by, deny, deny_by, deny_plan
from kode.permissions.rules import Rule
from kode.permissions.shell import Leaves, Line, Part, judge
from kode.tool import Blocked, Decision

_INSTEAD: dict[Leaves, str] = {
    "": "",
    "keys": "Leave the file to the person: say in your answer what you need of it.",
    "push": "Commit, and leave the push to the person.",
    "host": "Use what is installed: only 127.0.0.1 can be reached.",
    "machine": "Say in your answer what the person should run.",
    "place": "Use the project or /tmp, which commands have for themselves.",
}
"""For the model: what needs no yes in the place of what leaves."""

_REST = "The rest of the line can run without it."

MAX_FLAGS = 3  # a rule for more flags would hardly fit a second time
MAX_NAMED_CHARS = 100  # a question of one line


def run(call: Call) -> Decision:
    command = call.arguments.get("command")
    line = judge(command if isinstance(command, str) else "", call.where)
    decision = _run_line(call, line)
    if decision.outcome == "deny":
        return decision
    is_private = call.sandbox == "layered" and not call.sandbox_network
    is_private = is_private and decision.run_in != "host"
    return replace(
        decision,
        line=line,
        untrusted=outside_source(line, call.where, private=is_private),
    )


def again_outside(call: Call, blocked: Sequence[Blocked]) -> Decision:
    """Decides about a command that the sandbox made fail."""
    line = judge(str(call.arguments.get("command")), call.where)
    from_outside = any(attempt.what != "write" for attempt in blocked)
    failed = (
        "It failed in the sandbox, where it "
        + ", ".join(attempt.words for attempt in blocked)
        + "."
    )
    git = [git_folder_above(attempt.where) for attempt in blocked]
    flags = (
        [f"--add-dir {shlex.quote(folder)}" for folder in dict.fromkeys(git)] if all(git) else ()
    )
    consent = replace(
        _ask_about(call, line.parts).consent,
        decisive=failed,
        instead="",
        dangers=(),
        flag=" ".join(flags) or _flags(line.parts) or "--permission-mode full",
        runs_unattended=False,
    )
    return Decision(
        outcome="ask",
        reason=f"{failed} Run it outside?",
        line=line,
        untrusted=f"the output of `{line.parts[0].text}`" if from_outside else "",
        consent=consent,
    )


def rules_for_changes(call: Call) -> tuple[str, ...]:
    """The rules that would let a command change the project for real without a question; none if
    it may do more than its words say."""
    line = judge(str(call.arguments.get("command")), call.where)
    parts = [part for part in line.parts if part.risk != "safe"]
    offers = [offered_rule(part) for part in parts if part.risk == "write"]
    named = tuple(dict.fromkeys(str(offer) for offer in offers if offer is not None))
    return named if line.known and len(parts) == len([o for o in offers if o is not None]) else ()


def _run_line(call: Call, line: Line) -> Decision:
    for part in line.parts:
        if part.protected:
            return deny(f"`{part.text}` would write in a folder of kode's own.")
        denied = _rule_for(call, call.rules.deny, part, loosely=True)
        if denied:
            return deny_by(denied)
    if call.mode == "plan":
        return _in_plan(call, line)
    for part in line.parts:
        asked = _rule_for(call, call.rules.ask, part, loosely=True)
        if asked:
            return ask_by(asked)
    if not line.known and any(rule.kind == "shell" for rule in call.rules.deny):
        reason = "A deny rule might match it: not all of its words are known."
        return ask(reason, "a line of plain words")
    named = [part for part in line.parts if _is_named(call, part)]
    rest = [part for part in line.parts if part not in named]
    if any(_asks_at_once(call, part) for part in rest):
        # A yes runs the full line outside, so every part that does more than read is named.
        return _ask_about(call, [part for part in rest if part.risk != "safe" or part.secret])
    if call.mode == "full" and not call.sandbox_forced:
        return allow("The mode allows it.")
    if named and all(part.risk == "safe" for part in rest) and line.known:
        return allow("Rules or earlier answers allow every part of it.")
    if any(_asks_at_once(call, part) for part in named):
        return _ask_about(call, [part for part in rest if part.risk != "safe"] or list(line.parts))
    return _tried(call, line)


def _tried(call: Call, line: Line) -> Decision:
    """For a line that nothing asks about: into the sandbox, if there is one."""
    if call.sandbox == "unknown":
        return _unknown(call, line)
    if call.sandbox != "none":
        return replace(allow("It runs in the sandbox."), run_in="sandbox")
    if call.sandbox_forced:
        reason = "Commands must run in a sandbox, and this machine has none (`kode doctor`)."
        return deny(reason, by="sandbox")
    if line.only_reads:
        return allow("It only reads.")
    return _ask_about(call, [part for part in line.parts if part.risk != "safe"] or line.parts)


def _unknown(call: Call, line: Line) -> Decision:
    """What runs without a sandbox unasked runs now too; nothing is a reason to offer more."""
    without = replace(call, sandbox="none")
    if line.only_reads and not any(_asks_at_once(without, part) for part in line.parts):
        return allow("It only reads.")
    reason = "The sandbox's self-test ran out of time, because the machine is busy. Whether there "
    reason += "is a sandbox is not known yet: run the same command again in a while."
    return deny(reason, by="sandbox")


def _in_plan(call: Call, line: Line) -> Decision:
    risky = [part for part in line.parts if not part.outside and _is_refused_in_plan(call, part)]
    if risky:
        return deny_plan(f"`{risky[0].text}`: it {risky[0].reason}. That")
    if call.sandbox == "unknown":
        return _unknown(call, line)
    if call.sandbox != "none":
        return replace(allow("Mode plan changes nothing."), run_in="read_only")
    if line.only_reads:
        return allow("It only reads.")
    return deny_plan("Without a sandbox, a command that is not known to only read")


def _is_refused_in_plan(call: Call, part: Part) -> bool:
    """What would be dropped anyway is refused at once where a command says so."""
    changes = part.argv is not None and part.risk in ("write", "destructive")
    return changes or _asks_at_once(call, part)


def _asks_at_once(call: Call, part: Part) -> bool:
    layered = call.sandbox == "layered"
    if call.mode == "full":
        stays = layered and call.sandbox_forced and not part.leaves
        return not stays and (part.risk in ("system", "destructive") or part.secret)
    if layered or call.sandbox == "unknown":
        return bool(part.leaves)
    # The project and all outside of it are hidden or read-only: trying would only fail.
    return part.risk not in ("safe", "unknown") or part.outside or bool(part.leaves)


def _is_named(call: Call, part: Part) -> bool:
    """Whether an allow rule or an earlier answer matches it."""
    if _rule_for(call, call.rules.allow, part, loosely=False):
        return True
    grave = part.risk in ("system", "destructive")
    return not grave and _rule_for(call, call.rules.approved, part, loosely=False) is not None


def _rule_for(call: Call, among: Sequence[Rule], part: Part, *, loosely: bool) -> Rule | None:
    for rule in among:
        if rule.kind == "shell" and grammar.matches_argv(rule, part.argv, loosely=loosely):
            return rule
        if loosely and _touches(call, rule, part):
            return rule
    return None


def _touches(call: Call, rule: Rule, part: Part) -> bool:
    """Whether a command names a file that a read or edit rule is about."""
    if rule.kind not in ("read", "edit") or rule.name not in grammar.FAMILIES or not rule.pattern:
        return False
    paths = part.reads if rule.kind == "read" else part.writes
    return any(call.rule_has_path(rule, path, loosely=True) for path in paths)


def _ask_about(call: Call, parts: Sequence[Part]) -> Decision:
    """One question that names each risky part in a sentence."""
    offers = [offered_rule(part) for part in parts]
    named = tuple(dict.fromkeys(str(offer) for offer in offers if offer is not None))
    complete = bool(offers) and all(offer is not None for offer in offers)
    grave = [part for part in parts if part.risk == "destructive"]
    unclear = any(part.secret or part.risk == "unknown" for part in parts)
    decides = next((part for part in parts if _asks_at_once(call, part)), None)
    return ask(
        "\n".join(_sentences(part for part in parts if part not in grave)),
        _flags(parts) or ("an allow rule" if call.mode == "full" else "--permission-mode full"),
        *(named if complete else ()),
        narrow_rules=_exactly(parts) if complete else (),
        dangers=tuple(_sentences(grave)),
        **_for_the_model(decides, alone=len(parts) == 1),
        runs_unattended=call.mode == "full" and not unclear,
    )


def _for_the_model(decides: Part | None, *, alone: bool) -> dict[str, str]:
    """The part that decides, and what needs no yes in its place."""
    if decides is None:
        return {}
    reason = "names a file that is likely to hold keys" if decides.secret else decides.reason
    instead = _INSTEAD[decides.leaves]
    return {
        "decisive": f"`{_clip(decides.text)}` {reason}.",
        "instead": instead if alone or not instead else f"{instead} {_REST}",
    }


def _flags(parts: Sequence[Part]) -> str:
    """The flags that would allow all of these; "" if no rule can, or only many."""
    flags = []
    for part in parts:
        if part.argv is None:
            return ""
        rule = offered_rule(part) or grammar.shell_rule(part.argv, prefix=False)
        flags.append(f"--allow {_quote(str(rule))}")
    flags = list(dict.fromkeys(flags))
    return " ".join(flags) if len(flags) <= MAX_FLAGS else ""


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_NAMED_CHARS else f"{line[:MAX_NAMED_CHARS]}…"


def _sentences(parts: Iterable[Part]) -> list[str]:
    return list(
        dict.fromkeys(f"`{part.text}` {part.reason}. {part.undo}".strip() for part in parts)
    )


def offered_rule(part: Part) -> Rule | None:
    """The rule that would allow this command permanently, as narrow as its subcommand; None if none
    is offered."""
    if part.argv is None or part.risk in ("system", "destructive"):
        return None
    if part.offer:
        return grammar.shell_rule(part.offer, prefix=True)
    return grammar.shell_rule(part.argv, prefix=False)


def _exactly(parts: Sequence[Part]) -> tuple[str, ...]:
    exact = [grammar.shell_rule(part.argv, prefix=False) for part in parts if part.argv is not None]
    return tuple(dict.fromkeys(map(str, exact)))


def outside_source(line: Line, where: places.PathRules, *, private: bool = False) -> str:
    """The outside source of a line's output; "" if there is none. `private`: it runs in the
    sandbox, where the loopback and `/tmp` hold only what its siblings put there."""
    for part in line.parts:
        stays = private and not part.leaves
        if part.risk == "network" and not stays:
            return f"the output of `{part.text}`"
        for path in part.reads:
            if (part.outside and not stays) or places.is_log(path, where):
                return path
    return ""


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
