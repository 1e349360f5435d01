"""May this call run? A pure function of rules, mode, tool and arguments (it reads symlinks only).

Deny beats ask beats allow. A rule the user wrote is never overridden by a heuristic, with four
exceptions, in this order:

1. Nothing writes in a folder kode keeps (`$KODE_HOME`), whatever rules and mode say.
2. In mode `plan` nothing runs that changes something, whatever is allowed.
3. A `shell(...)` rule covers only commands whose words are known: `$X status` matches nothing.
4. In a session that took in untrusted text, what goes into memory is shown first.

Asking, and remembering the answer, is `gate`'s.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kode.contracts import NOTHING_AT_STAKE, AtStake, Effect, PermissionMode, Tool
from kode.permissions import rules as grammar
from kode.permissions import sensitive, sweep
from kode.permissions.rules import Rule, Rules
from kode.permissions.shell import classify
from kode.permissions.shell_class import PartClass, ShellClass, worst
from kode.permissions.shell_words import FOUND

Outcome = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, kw_only=True)
class Decision:
    outcome: Outcome
    reason: str
    """For a person when asked, for the model when denied."""
    rules_offered: tuple[str, ...] = ()
    """Rules that would answer this question for good; empty where no "always" is on offer."""
    runs_unasked: bool = False
    """With `ask`: whether it runs all the same when nobody can be asked (mode `full`)."""
    hint: str = ""
    """With `ask`: the flag that would allow it."""
    klass: str = ""
    """With `ask`, for a command: the worst class of its parts."""
    at_stake: AtStake = NOTHING_AT_STAKE
    held: bool = False
    """With `allow`: whether it is asked about where no sandbox holds it."""


_MEMORY_READS = frozenset({"memory_list", "memory_read", "history_search", "recall"})
_MEMORY_READ_ACTIONS = frozenset({"read", "search", "list", "show"})
_FREE_CLASSES: dict[PermissionMode, frozenset[ShellClass]] = {
    "ask": frozenset({"safe"}),
    "plan": frozenset({"safe"}),
    "auto-edit": frozenset({"safe", "write"}),
    "full": frozenset({"safe", "write", "network", "unknown"}),
}

_CONTAINED_CLASSES: frozenset[ShellClass] = frozenset({"safe", "write", "unknown"})


def decide(
    rules: Rules,
    mode: PermissionMode,
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    cwd: Path,
    roots: Sequence[Path],
    project: Path,
    user_home: Path,
    protected: Sequence[Path] = (),
    temp: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    taint: bool = False,
    contained: bool = False,
) -> Decision:
    """Whether a call may run, must be asked about, or is refused. Never raises.

    `roots` are the folders of work, `readable` more folders that may be read unasked (kode's kept
    outputs), `taint` whether the session took in untrusted text, `contained` whether commands run
    in a sandbox that holds whatever they do.
    """
    call = _Call(
        rules=rules,
        mode=mode,
        tool=tool,
        arguments=arguments,
        project=project,
        where=sensitive.ground(cwd, roots, user_home, protected, temp),
        readable=tuple(sensitive.real(folder) for folder in readable),
        taint=taint,
        contained=contained,
        shell_roots=tuple(roots),
    )
    by_rule = _denied_outright(call)
    if by_rule is not None:
        return by_rule
    return _BY_EFFECT[tool.effect](call)


@dataclass(frozen=True, kw_only=True)
class _Call:
    rules: Rules
    mode: PermissionMode
    tool: Tool
    arguments: Mapping[str, Any]
    project: Path
    where: sensitive.Ground
    readable: tuple[str, ...]
    taint: bool
    contained: bool
    shell_roots: tuple[Path, ...]

    def first(self, among: Sequence[Rule], matches: Callable[[Rule], bool]) -> Rule | None:
        """The first rule about this tool that matches."""
        for rule in among:
            if grammar.names_tool(rule, self.tool.name) and matches(rule):
                return rule
        return None

    def path_rule(self, among: Sequence[Rule], path: str, *, loosely: bool) -> Rule | None:
        return self.first(among, lambda rule: self.rule_has_path(rule, path, loosely=loosely))

    def rule_has_path(self, rule: Rule, path: str, *, loosely: bool) -> bool:
        return grammar.matches_path(
            rule, path, project=self.project, user_home=Path(self.where.home), loosely=loosely
        )


def _denied_outright(call: _Call) -> Decision | None:
    """A bare deny rule for the tool."""
    rule = call.first(call.rules.deny, lambda rule: not rule.pattern)
    return _deny_by(rule) if rule else None


# ── files ────────────────────────────────────────────────────────────────────────────────────


def _read(call: _Call) -> Decision:
    path = _path(call, "path", default=".")
    named = [path, *_globbed(call, path)]
    for one in named:
        by_rule = _by_path_rule(call, one)
        if by_rule is not None and by_rule.outcome != "allow":
            return by_rule
    allowed = _by_path_rule(call, path)
    if allowed is not None:
        return allowed
    secret = next((one for one in named if sensitive.is_secret(one, call.where)), None)
    if secret is not None:
        return Decision(
            outcome="ask",
            reason=f"{_shown(call, secret)} is likely to hold keys or passwords.",
            hint=f"--allow '{_file_rule('read', call, secret)}'",
        )
    if sensitive.place(path, call.where) in ("root", "temp") or any(
        sensitive.below(sensitive.real(path), folder) for folder in call.readable
    ):
        return _allow("It reads the project.")
    if _covered(call, path):
        return _allow("You allowed it before.")
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    rule = Rule("read", f"{folder.rstrip('/')}/**")
    return Decision(
        outcome="allow" if call.mode == "full" else "ask",
        reason=f"{_shown(call, path)} is outside the working folders.",
        rules_offered=(str(rule),) if folder not in ("/", call.where.home) else (),
        hint=f"--allow '{rule}'",
    )


def _edit(call: _Call) -> Decision:
    path = _path(call, "path", default="")
    where = sensitive.place(path, call.where)
    if where == "protected":
        return _deny(f"{_shown(call, path)} belongs to kode; no tool writes there.")
    by_rule = _by_path_rule(call, path)
    if by_rule is not None and by_rule.outcome == "deny":
        return by_rule
    if call.mode == "plan":
        return _deny_plan("Editing a file")
    if by_rule is not None:
        return by_rule
    rule = _file_rule("edit", call, path)
    if sensitive.runs_later(path):
        return Decision(
            outcome="ask",
            reason=f"{_shown(call, path)} is run later by other programs, unseen.",
            runs_unasked=call.mode == "full",
            hint=f"--allow '{rule}'",
        )
    if call.taint and sensitive.steers_agents(path):
        return Decision(
            outcome="ask",
            reason=f"{_shown(call, path)} tells agents what to do, and this session has taken in "
            "text from outside.",
            runs_unasked=call.mode == "full",
            hint=f"--allow '{rule}'",
        )
    inside = where == "root"
    if call.mode == "full" or (call.mode == "auto-edit" and (inside or where == "temp")):
        return _allow("The mode allows it.")
    if _covered(call, path):
        return _allow("You allowed it before.")
    if inside:
        return Decision(
            outcome="ask",
            reason="Edits are asked about in this mode.",
            rules_offered=(str(_folder_rule(call, path) or rule),),
            hint="--permission-mode auto-edit",
        )
    return Decision(
        outcome="ask",
        reason=f"{_shown(call, path)} is outside the working folders.",
        rules_offered=(str(rule),),
        hint=f"--allow '{rule}'",
    )


def _folder_rule(call: _Call, path: str) -> Rule | None:
    """The rule for a file's folder; None for one in the project's own folder or outside of it: the
    first would be a rule for everything, which is what the mode `auto-edit` is for."""
    project, folder = sensitive.real(call.project), os.path.dirname(sensitive.real(path))
    if folder == project or not sensitive.below(folder, project):
        return None
    return Rule("edit", f"./{os.path.relpath(folder, project)}/**")


def _by_path_rule(call: _Call, path: str) -> Decision | None:
    denied = call.path_rule(call.rules.deny, path, loosely=True)
    if denied:
        return _deny_by(denied)
    asked = call.path_rule(call.rules.ask, path, loosely=True)
    if asked:
        return _ask_by(asked)
    allowed = call.path_rule(call.rules.allow, path, loosely=False)
    return _allow(f"The rule {allowed} allows it.") if allowed else None


def _covered(call: _Call, path: str) -> bool:
    return call.path_rule(call.rules.approved, path, loosely=False) is not None


def _path(call: _Call, name: str, *, default: str) -> str:
    value = call.arguments.get(name)
    text = value if isinstance(value, str) and value else default
    if text == "~" or text.startswith("~/"):
        text = call.where.home + text[1:]
    return os.path.normpath(os.path.join(call.where.cwd, text.replace("\0", "")))


def _globbed(call: _Call, path: str) -> list[str]:
    """The files a reader is pointed at by a glob or pattern argument, as far as it names them."""
    named = []
    for name in ("glob", "pattern"):
        value = call.arguments.get(name)
        is_glob = name == "glob" or call.tool.name == "list_files"
        if is_glob and isinstance(value, str) and value:
            named.append(os.path.normpath(os.path.join(path, value.replace("\0", ""))))
    return named if call.tool.name != "list_files" else []


def _file_rule(name: str, call: _Call, path: str) -> Rule:
    project = sensitive.real(call.project)
    real = sensitive.real(path)
    if real != project and sensitive.below(real, project):
        return Rule(name, "./" + os.path.relpath(real, project))
    return Rule(name, real)


def _shown(call: _Call, path: str) -> str:
    return os.path.relpath(path, call.where.cwd) if sensitive.below(path, call.where.cwd) else path


# ── commands ─────────────────────────────────────────────────────────────────────────────────


def _run(call: _Call) -> Decision:
    command = call.arguments.get("command")
    classified = classify(
        command if isinstance(command, str) else "",
        cwd=Path(call.where.cwd),
        roots=call.shell_roots,
        home=Path(call.where.home),
        protected=tuple(Path(folder) for folder in call.where.protected),
        temp=tuple(Path(folder) for folder in call.where.temp),
    )
    parts = [_looked_at(call, part) for part in classified.parts]
    decision = _run_parts(call, parts)
    if decision.outcome == "deny":
        return decision
    klass = worst(part.klass for part in parts)
    return replace(decision, klass=klass, at_stake=_at_stake(classified.parts))


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


def _run_parts(call: _Call, parts: Sequence[PartClass]) -> Decision:
    for part in parts:
        if part.protected:
            return _deny(f"`{part.text}` would write in a folder that belongs to kode.")
        denied = _part_rule(call, call.rules.deny, part, loosely=True)
        if denied:
            return _deny_by(denied)
    if call.mode == "plan":
        rest = [part for part in parts if part.klass != "safe"]
        if rest:
            return _deny_plan(f"`{rest[0].text}` ({rest[0].reason})")
    for part in parts:
        asked = _part_rule(call, call.rules.ask, part, loosely=True)
        if asked:
            return _ask_by(asked)
    open_parts = [part for part in parts if not _part_runs(call, part)]
    if not open_parts:
        bare = replace(call, contained=False)
        held = call.contained and not all(_part_runs(bare, part) for part in parts)
        return replace(_allow("Every part of it may run."), held=held)
    return _ask_about(call, open_parts)


def _looked_at(call: _Call, part: PartClass) -> PartClass:
    """A part that reads files without naming them, and one of them is likely to hold keys."""
    if part.secret or not part.sweeps:
        return part
    found = sweep.meets(part.sweeps, call.where)
    if found is None:
        return part
    return replace(
        part,
        klass=worst((part.klass, "system")),
        reason=f"it would read {_shown(call, found)} too, which is likely to hold keys: "
        "name the files it needs, or leave that one out",
        secret=True,
        reads=(*part.reads, found),
    )


def _part_runs(call: _Call, part: PartClass) -> bool:
    if part.klass == "safe":
        return True
    if _part_rule(call, call.rules.allow, part, loosely=False):
        return True
    grave = part.klass in ("system", "destructive")
    if not grave and _part_rule(call, call.rules.approved, part, loosely=False):
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


def _part_rule(
    call: _Call, among: Sequence[Rule], part: PartClass, *, loosely: bool
) -> Rule | None:
    for rule in among:
        if rule.kind == "shell" and grammar.matches_argv(rule, part.argv, loosely=loosely):
            return rule
        if loosely and _touches(call, rule, part):
            return rule
    return None


def _touches(call: _Call, rule: Rule, part: PartClass) -> bool:
    """Whether a command reads or writes a file that a read or edit rule names."""
    if rule.kind not in ("read", "edit") or rule.name not in grammar.FAMILIES or not rule.pattern:
        return False
    paths = part.reads if rule.kind == "read" else part.writes
    return any(call.rule_has_path(rule, path, loosely=True) for path in paths)


def _ask_about(call: _Call, parts: list[PartClass]) -> Decision:
    gravest = max(
        parts,
        key=lambda part: ("write", "network", "unknown", "system", "destructive").index(part.klass),
    )
    offers = [offered_rule(part) for part in parts]
    grave = any(part.klass in ("system", "destructive") for part in parts)
    complete = not grave and all(offer is not None for offer in offers)
    named = tuple(dict.fromkeys(str(offer) for offer in offers if offer is not None))
    hint = " ".join(f"--allow {_quoted(rule)}" for rule in named) if all(offers) else ""
    if all(p.klass in _FREE_CLASSES["auto-edit"] or p.development for p in parts):
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
    if part.argv is None:
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


# ── the rest ─────────────────────────────────────────────────────────────────────────────────


def _fetch(call: _Call) -> Decision:
    value = call.arguments.get("url")
    url = value if isinstance(value, str) else ""

    def matches(rule: Rule) -> bool:
        return grammar.matches_url(rule, url)

    by_rule = _by_rule(call, matches)
    if by_rule is not None:
        return by_rule
    if call.mode == "full":
        return _allow("The mode allows it.")
    if call.first(call.rules.approved, matches):
        return _allow("You allowed it before.")
    host = grammar.host_of(url)
    offered = (f"fetch({host})",) if host else ()
    return Decision(
        outcome="ask",
        reason=f"It asks {host or 'another machine'} for a page.",
        rules_offered=offered,
        hint=f"--allow '{offered[0] if offered else 'fetch'}'",
    )


def _memory(call: _Call) -> Decision:
    by_rule = _by_rule(call, lambda rule: True)
    if by_rule is not None and by_rule.outcome != "allow":
        return by_rule
    given = call.arguments.get("action")
    action = given if isinstance(given, str) else ""
    if call.tool.name in _MEMORY_READS or action in _MEMORY_READ_ACTIONS:
        return _allow("It reads memory.")
    if call.mode == "plan":
        return _deny_plan("Writing to memory")
    removes = call.tool.name == "forget" or action == "remove"
    if call.taint and not removes:
        return Decision(
            outcome="ask",
            reason="This session has taken in text from outside: check what would be remembered.",
        )
    return _allow("Memory is the agent's own.")


def _delegate(call: _Call) -> Decision:
    by_rule = _by_rule(call, lambda rule: True)
    if by_rule is not None:
        return by_rule
    if call.mode == "full" or call.first(call.rules.approved, lambda rule: True):
        return _allow("The mode or an earlier answer allows it.")
    return Decision(
        outcome="ask",
        reason="It starts subagents, which work in the same permission mode.",
        rules_offered=("delegate",),
        hint="--allow delegate",
    )


def _none(call: _Call) -> Decision:
    return _by_rule(call, lambda rule: True) or _allow("It touches nothing outside the session.")


def _by_rule(call: _Call, matches: Callable[[Rule], bool]) -> Decision | None:
    denied = call.first(call.rules.deny, matches)
    if denied:
        return _deny_by(denied)
    asked = call.first(call.rules.ask, matches)
    if asked:
        return _ask_by(asked)
    allowed = call.first(call.rules.allow, matches)
    return _allow(f"The rule {allowed} allows it.") if allowed else None


def _allow(reason: str) -> Decision:
    return Decision(outcome="allow", reason=reason)


def _deny(reason: str) -> Decision:
    return Decision(outcome="deny", reason=reason)


def _deny_by(rule: Rule) -> Decision:
    return _deny(f"The rule `deny {rule}` forbids it.")


def _deny_plan(what: str) -> Decision:
    return _deny(
        f"{what} is not allowed in mode `plan`, where nothing is changed. "
        "Describe what you would do instead."
    )


def _ask_by(rule: Rule) -> Decision:
    return Decision(outcome="ask", reason=f"The rule `ask {rule}` says so.")


_BY_EFFECT: dict[Effect, Callable[[_Call], Decision]] = {
    "read": _read,
    "edit": _edit,
    "run": _run,
    "fetch": _fetch,
    "memory": _memory,
    "delegate": _delegate,
    "none": _none,
}
