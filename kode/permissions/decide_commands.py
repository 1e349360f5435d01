"""May this command line run? Each part of it by rules, then by what it would do (`shell`)."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kode.contracts import AtStake, PermissionMode
from kode.permissions import rules as grammar
from kode.permissions import sensitive, sweep
from kode.permissions.decision import Call, Decision, allow, ask_by, deny, deny_by, deny_plan, shown
from kode.permissions.rules import Rule
from kode.permissions.shell import classify
from kode.permissions.shell.classes import PartClass, ShellClass, worst
from kode.permissions.shell.words import FOUND, UNKNOWN

_FREE_CLASSES: dict[PermissionMode, frozenset[ShellClass]] = {
    "ask": frozenset({"safe"}),
    "plan": frozenset({"safe"}),
    "auto-edit": frozenset({"safe", "write"}),
    "full": frozenset({"safe", "write", "network", "unknown"}),
}

_CONTAINED_CLASSES: frozenset[ShellClass] = frozenset({"safe", "write", "unknown"})


def run(call: Call) -> Decision:
    command = call.arguments.get("command")
    classified = classify(
        command if isinstance(command, str) else "",
        cwd=Path(call.where.cwd),
        roots=call.shell_roots,
        home=Path(call.where.home),
        protected=tuple(Path(folder) for folder in call.where.protected),
        temp=tuple(Path(folder) for folder in call.where.temp),
        readable=tuple(Path(path) for path in call.where.readable),
    )
    parts = [_looked_at(call, part) for part in classified.parts]
    decision = _run_parts(call, parts)
    if decision.outcome == "deny":
        return decision
    klass = worst(part.klass for part in parts)
    decision = replace(decision, klass=klass, at_stake=_at_stake(classified.parts))
    if decision.outcome == "allow" or not any(part.remote for part in parts):
        return decision
    told = " A yes lets it use the network, in the sandbox too." if call.contained else ""
    return replace(decision, reason=decision.reason + told, network=True)


def _at_stake(parts: Sequence[PartClass]) -> AtStake:
    changed: list[str] = []
    deleted: list[str] = []
    discarded: list[str] = []
    for part in parts:
        discarded += part.discards
        among = deleted if part.klass == "destructive" else changed
        for path in part.writes:
            if FOUND in path:  # some file of a folder: `find src -exec rm {} +`
                discarded.append(path.partition(FOUND)[0].rstrip("/") or "/")
            else:
                among.append(path)
    return AtStake(
        changed=tuple(dict.fromkeys(changed)),
        deleted=tuple(dict.fromkeys(deleted)),
        discarded=tuple(dict.fromkeys(discarded)),
    )


def _run_parts(call: Call, parts: Sequence[PartClass]) -> Decision:
    for part in parts:
        if part.protected:
            return deny(f"`{part.text}` would write in a folder that belongs to kode.")
        denied = _part_rule(call, call.rules.deny, part, loosely=True)
        if denied:
            return deny_by(denied)
    if call.mode == "plan":
        rest = [part for part in parts if part.klass != "safe"]
        if rest:
            return deny_plan(f"`{rest[0].text}` ({rest[0].reason})")
    for part in parts:
        asked = _part_rule(call, call.rules.ask, part, loosely=True)
        if asked:
            return ask_by(asked)
    open_parts = [part for part in parts if not _part_runs(call, part)]
    if not open_parts:
        return replace(allow("Every part of it may run."), network=_network(call, parts))
    return _ask_about(call, open_parts)


def _network(call: Call, parts: Sequence[PartClass]) -> bool | None:
    """Whether a command that runs unasked may use the network where there is a sandbox. A rule that
    allows to talk to other machines says so, but not for programs beside it that no rule names."""
    bare = replace(call, contained=False)
    held = [part for part in parts if call.contained and not _part_runs(bare, part)]
    remote = [part for part in parts if part.remote]
    others = [part for part in parts if part.klass not in ("safe", "write")]
    programs = [part for part in held if part.argv is not None]  # the rest is redirections
    if remote and not programs and all(_named(call, part) for part in (*remote, *others)):
        return True
    return False if held else None


def _named(call: Call, part: PartClass) -> bool:
    """Whether an allow rule or an answer of before allows it."""
    if _part_rule(call, call.rules.allow, part, loosely=False):
        return True
    grave = part.klass in ("system", "destructive")
    approved = _part_rule(call, call.rules.approved, part, loosely=False)
    return approved is not None and not grave


def _looked_at(call: Call, part: PartClass) -> PartClass:
    """A part that reads files without naming them, and one of them is likely to hold keys."""
    if part.secret or not part.sweeps:
        return part
    found = sweep.meets(part.sweeps, call.where)
    if found is None:
        return part
    return replace(
        part,
        klass=worst((part.klass, "system")),
        reason=f"it would read {shown(call, found)} too, which is likely to hold keys: "
        "name the files it needs, or leave that one out",
        secret=True,
        reads=(*part.reads, found),
    )


def _part_runs(call: Call, part: PartClass) -> bool:
    if part.klass == "safe":
        return True
    if _named(call, part):
        return True
    if call.taint and any(sensitive.steers_agents(path) for path in part.writes):
        return False
    free = _FREE_CLASSES[call.mode] | (_CONTAINED_CLASSES if call.contained else frozenset())
    if part.klass in free:
        # A deny rule could be about words that are not known: then somebody looks first.
        hidden = part.klass == "unknown" and part.argv is None
        return not (hidden and any(rule.kind == "shell" for rule in call.rules.deny))
    # Tests and builds run code of the project. Once text from outside was read, that code may be
    # what the text wanted written: then somebody looks first.
    return part.development and call.mode == "auto-edit" and not call.taint


def _part_rule(call: Call, among: Sequence[Rule], part: PartClass, *, loosely: bool) -> Rule | None:
    for rule in among:
        if rule.kind == "shell" and grammar.matches_argv(rule, part.argv, loosely=loosely):
            return rule
        if loosely and _touches(call, rule, part):
            return rule
    return None


def _touches(call: Call, rule: Rule, part: PartClass) -> bool:
    """Whether a command reads or writes a file that a read or edit rule names."""
    if rule.kind not in ("read", "edit") or rule.name not in grammar.FAMILIES or not rule.pattern:
        return False
    paths = part.reads if rule.kind == "read" else part.writes
    return any(call.rule_has_path(rule, path, loosely=True) for path in paths)


def _ask_about(call: Call, parts: list[PartClass]) -> Decision:
    gravest = max(
        parts,
        key=lambda part: ("write", "network", "unknown", "system", "destructive").index(part.klass),
    )
    offers = [offered_rule(part) for part in parts]
    grave = any(part.klass in ("system", "destructive") for part in parts)
    complete = not grave and all(offer is not None for offer in offers)
    named = tuple(dict.fromkeys(str(offer) for offer in offers if offer is not None))
    hint = " ".join(f"--allow {_quoted(rule)}" for rule in named) if all(offers) else ""
    tame = all(p.klass in _FREE_CLASSES["auto-edit"] or p.development for p in parts)
    if tame and call.mode != "auto-edit":
        hint = f"{hint} or --permission-mode auto-edit".removeprefix(" or ")
    return Decision(
        outcome="ask",
        reason=_why(gravest),
        rules_offered=named if complete else (),
        runs_unasked=call.mode == "full"
        and not any(part.secret for part in parts)
        and not any(part.klass == "unknown" for part in parts),
        hint=hint or ("an allow rule" if call.mode == "full" else "--permission-mode full"),
    )


def offered_rule(part: PartClass) -> Rule | None:
    """The rule that would allow this command from now on, as narrow as is useful; None where the
    words are not known."""
    if part.argv is None or any(UNKNOWN in word or FOUND in word for word in part.argv):
        return None
    words = part.argv
    if part.development or os.path.basename(words[0]) in _OFFER_BY_SUBCOMMAND:
        kept = words[:1]
        if words[0] in _OFFER_BY_SUBCOMMAND:
            if len(words) < 2 or words[1].startswith("-"):
                return grammar.shell_rule(words, prefix=False)
            kept = words[:3] if words[1] in ("run", "exec") and len(words) > 2 else words[:2]
        return grammar.shell_rule(kept, prefix=True)
    return grammar.shell_rule(words, prefix=False)


_OFFER_BY_SUBCOMMAND = frozenset(
    "git npm yarn pnpm bun cargo go make just task poetry uv pdm hatch pip pip3 docker podman "
    "kubectl terraform dotnet mvn gradle gh".split()
)


def _why(part: PartClass) -> str:
    return f"`{part.text}`: {part.klass}, {part.reason}."


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
