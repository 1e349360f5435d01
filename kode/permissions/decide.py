"""Decides whether a call may run, by rules, mode, tool and arguments. Changes nothing; what is on
disk counts only where a path's meaning depends on it (links, folders, settings of the project).

Deny beats ask beats allow. A rule the user wrote is never overridden by a heuristic, with four
exceptions, in this order: nothing writes to kode's own folders (`$KODE_HOME`); in mode `plan`
nothing runs that changes anything; a `shell(...)` rule covers only commands whose words are known
(`$X status` matches nothing); in a session that read untrusted text, what goes into memory is shown
first.

A command that nobody approved runs in the sandbox on a copy of the project, and its changes are
judged afterwards: kode asks first only about a part that needs more (`LinePart.leaves`). Without
such a sandbox, names decide (`LinePart.risk`). A command runs outside the sandbox only if a person
allowed it, by an answer or by a rule for every part that does more than read, or in mode `full`.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from kode.git import git_folder_above
from kode.messages import RefusedBy, shorten
from kode.permissions import places, rules as grammar
from kode.permissions.names import PermissionMode
from kode.permissions.rules import Rule, Rules, parse_all
from kode.tool import Action, Blocked, Consent, Decision, FileChange, Interceptor
from kode.values import Value, replace
from kode.workplace import Workplace, is_below, to_command, to_host

if TYPE_CHECKING:
    from kode.permissions.shell.judge import LinePart, ShellLine
    from kode.sandbox.sandbox import SandboxKind

MAX_FLAGS = 3  # more rules would hardly fit a second command
MAX_NAMED_CHARS = 100  # a question of one line

_ALLOWED_BEFORE = "You allowed it before."
_MODE_ALLOWS = "The mode allows it."

_INSTEAD = {
    "keys": "Leave the file to the person: say in your answer what you need of it.",
    "push": "Commit, and leave the push to the person.",
    "host": "Use what is installed: only 127.0.0.1 can be reached.",
    "machine": "Say in your answer what the person should run.",
    "place": "Use the project or /tmp, which commands have for themselves.",
}
"""What a command needs outside the sandbox → what the model can do instead, without approval."""


class Call(Value):
    """A tool call, with everything that the decision about it depends on."""

    rules: Rules = Rules()
    mode: PermissionMode = "ask"
    action: Action
    place: Workplace
    where: places.PathRules  # of `place`
    approved: Callable[[], Sequence[Rule]] = tuple
    """Reads the rules of a person's "always" answers: they never cover a grave part of a line."""
    tainted: Callable[[], bool] = lambda: False
    """Whether the session has read outside text."""
    change: FileChange | None = None
    """The change that a command made in its copy, whose text nobody has seen come about; None if
    the call itself would make the change."""
    is_shown: Callable[[str], bool] = lambda path: False
    """Whether commands in the sandbox may read an absolute path, and all below it."""
    sandbox: "SandboxKind" = "none"
    sandbox_forced: bool = False
    """Whether commands run in the sandbox even in mode `full`, and are refused without one."""
    sandbox_network: bool = False
    """Whether commands in the sandbox use this machine's network."""

    @cached_property
    def path(self) -> str:
        """The absolute path that the argument `path` means, links not resolved."""
        value = self.action.arguments.get("path")
        text = value if isinstance(value, str) and value else "."
        if text == "~" or text.startswith("~/"):
            text = self.where.home + text[1:]
        # As the tool finds it; only after that may `..` be removed.
        path = to_host(self.place, os.path.join(self.where.cwd, text.replace("\0", "")))
        return os.path.normpath(path)

    def is_approved(self, path: str = "") -> bool:
        """Whether an approved rule matches this call, or a file tool's call with this `path`."""
        return any(self.matches(rule, path) for rule in self.approved())

    def matches(self, rule: Rule, path: str = "", *, loosely: bool = False) -> bool:
        """Whether a rule matches this call, or a file tool's call with this `path`; for a command,
        only one about every command. `loosely`: as widely as deny and ask rules match."""
        if not grammar.names_tool(rule, self.action.tool):
            return False
        match self.action.effect:
            case "read" | "edit":
                path = path or self.path
                return grammar.matches_path(rule, path, self.place, loosely=loosely)
            case "fetch":
                return grammar.matches_url(rule, str(self.action.arguments.get("url")))
            case "mcp":
                # As shown to the person: a server may call its tool `delete.all`.
                shown = self.action.tool.name.removeprefix("mcp__").replace("__", ":", 1)
                names = (self.action.subject, *[shown] * loosely)
                servers = [name.partition(":")[0] for name in names]
                return rule.pattern in ("", *names, *servers)
            case "run":
                return not rule.pattern
        return True


def decide_call(call: Call) -> Decision:
    """Whether a call may run, must be asked about, or is refused. Never raises."""
    for rule in call.rules.deny:
        if not rule.pattern and call.matches(rule):
            return _deny_by(rule)
    match call.action.effect:
        case "read":
            return _decide_read(call)
        case "edit" if call.change is not None:
            return _decide_edit(call)
        case "edit":
            reading = replace(call.action.tool, name="read_file", effect="read", effect_of=None)
            read = decide_call(replace(call, action=replace(call.action, tool=reading)))
            return replace(_decide_edit(call), must_read_first=not read.is_allowed)
        case "run":
            return _decide_run(call)
        case "fetch" | "mcp" | "delegate" as effect:
            return _decide_sending(call, effect)
        case "memory" | "memory-read" as effect:
            return _decide_memory(call, writes=effect == "memory")
    return _decide_by_rules(call) or allow("It touches nothing outside the session.")


def limit_calls(only: Sequence[str], place: Workplace) -> Interceptor:
    """Makes an interceptor that refuses calls which match none of these rules. A call that touches
    nothing outside the session needs no rule. If a rule is about commands, others run read-only.

    Raises: ConfigError for a bad rule.
    """
    rules, where = parse_all(only), places.path_rules(place)
    names = ", ".join(only) or "no tools"
    reason = f"The command that started this turn allows only {names}. Use those."

    async def intercept(action: Action) -> Decision | None:
        call = Call(action=action, place=place, where=where, approved=lambda: rules)
        if action.effect == "none" or call.is_approved():
            return None
        is_run = action.effect == "run"
        parts = judge_command(action.arguments.get("command"), where).parts if is_run else ()
        if is_run and all(_line_rule(call, rules, part) for part in parts):
            return None
        if is_run and any(rule.kind == "shell" for rule in rules):
            return Decision(outcome="allow", reason=reason, run_in="read_only")
        return deny(reason)

    return intercept


def allow(reason: str) -> Decision:
    return Decision(outcome="allow", reason=reason)


def deny(reason: str, *, by: RefusedBy = "rule") -> Decision:
    return Decision(outcome="deny", reason=reason, by=by)


def ask(reason: str, flag: str = "", *rules: str, **values: Any) -> Decision:
    """Returns a decision to ask; `values` are the other fields of its `Consent`."""
    return Decision(outcome="ask", reason=reason, consent=Consent(flag=flag, rules=rules, **values))


def _deny_by(rule: Rule) -> Decision:
    return deny(rule.why or f"The rule `deny {rule}` forbids it.")


_BY_RULE: Mapping[str, Callable[[Rule], Decision]] = {
    "deny": _deny_by,
    "ask": lambda rule: ask(f"The rule `ask {rule}` says so."),
    "allow": lambda rule: allow(f"The rule {rule} allows it."),
}


def _deny_in_plan(what: str) -> Decision:
    text = f"{what} is not allowed in mode `plan`, where nothing may change."
    return deny(f"{text} Describe what you would do instead.", by="mode")


def _decide_by_rules(call: Call, path: str = "") -> Decision | None:
    """The decision by the first matching rule of the settings: deny, then ask, then allow."""
    rules = call.rules
    for outcome, among in (("deny", rules.deny), ("ask", rules.ask), ("allow", rules.allow)):
        for rule in among:
            if call.matches(rule, path, loosely=outcome != "allow"):
                return _BY_RULE[outcome](rule)
    return None


def _decide_sending(call: Call, effect: Literal["fetch", "mcp", "delegate"]) -> Decision:
    """Decides a call that works elsewhere. A server's claims about its own tools (read-only,
    harmless) change nothing here."""
    decision = _decide_by_rules(call)
    if effect == "mcp" and call.mode == "plan" and not (decision and decision.outcome == "deny"):
        return _deny_in_plan("A tool of an MCP server, which may change anything,")
    if decision is not None:
        return decision
    if call.mode == "full":
        return allow(_MODE_ALLOWS)
    if call.is_approved():
        return allow(_ALLOWED_BEFORE)
    if effect == "delegate":
        reason = "Starts subagents; they have the same permissions."
        return ask(reason, "--allow 'delegate'", "delegate")
    if effect == "mcp":
        target = call.action.subject
        server, _, name = target.partition(":")
        reason = f"kode cannot tell what {name} does: it is a tool of the MCP server {server}."
        return ask(reason, f"--allow 'mcp({target})'", f"mcp({target})")
    host = grammar.host_of(str(call.action.arguments.get("url")))
    rule = f"fetch({host})" if host else "fetch"
    is_wide = not host or "*" in host  # the rule would cover other hosts
    reason = f"Fetches a page from {host or 'another machine'}."
    return ask(reason, f"--allow '{rule}'", *([] if is_wide else [rule]))


def _decide_memory(call: Call, *, writes: bool) -> Decision:
    decision = _decide_by_rules(call)
    if decision is not None and not decision.is_allowed:
        return decision
    if writes and call.mode == "plan":
        return _deny_in_plan("Writing to memory")
    if writes and call.tainted():
        return ask("This session has read outside text. Check the change to memory.")
    return allow("Memory is the agent's own.")


def _decide_read(call: Call) -> Decision:
    paths = [path := call.path]
    glob = call.action.arguments.get("glob")  # of a search, which looks there
    if call.action.tool.name != "list_files" and isinstance(glob, str) and glob:
        paths.append(os.path.normpath(os.path.join(path, glob.replace("\0", ""))))
    by_rule = [*map(partial(_decide_by_rules, call), paths)]
    for decision in by_rule:
        if decision is not None and not decision.is_allowed:
            return decision
    if by_rule[0] is not None:
        return by_rule[0]
    for it in paths:
        if places.is_secret(it, call.where):
            reason = f"{_display_name(call, it)} is likely to hold keys or passwords."
            return ask(reason, f"--allow '{_make_file_rule(call, _real_target(call, it), 'read')}'")
    if places.find_place(path, call.where) == "root" or places.is_readable(path, call.where):
        return allow("It reads the project.")
    if call.is_approved(path):
        return allow(_ALLOWED_BEFORE)
    if call.is_shown(path):
        return allow("Commands in the sandbox may read it.")
    reason = f"{_display_name(call, path)} is outside the working folders."
    if call.mode == "full":
        return allow(reason)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    rule = Rule("read", f"{folder.rstrip('/')}/**")
    is_wide = folder in ("/", call.where.home, *call.where.temp)
    offer = () if is_wide else _make_lasting_rule(folder, rule)
    narrow = _make_lasting_rule(path, Rule("read", path)) if offer and folder != path else ()
    return ask(reason, f"--allow '{rule}'", *offer, narrow_rules=narrow)


def _decide_edit(call: Call) -> Decision:
    path, change, is_full = call.path, call.change, call.mode == "full"
    real, name = _real_target(call, path), _display_name(call, path)
    place = places.find_place(os.path.dirname(real) if os.path.islink(real) else path, call.where)
    if place == "protected":
        return deny(f"{name} belongs to kode; tools never write there.")
    by_rule = _decide_by_rules(call, path)
    if call.mode == "plan" and not (by_rule and by_rule.outcome == "deny"):
        return _deny_in_plan("Editing a file")
    if by_rule is not None:
        return by_rule
    # The wide rule covers the ignored folder around the file, or the file's own folder; not the
    # project's root, where it would cover everything (mode `auto-edit` is for that).
    ignored = change.ignored if change is not None else ""
    folder, in_ignored = ignored.rstrip("/"), ignored.endswith("/")
    if change is not None and change.kind == "dependency" and not is_full:
        rule = _make_file_rule(call, _real_target(call, folder))
        rule = Rule("edit", f"{rule.pattern}/**") if in_ignored else rule
        if rule in call.approved():  # a rule for other files does not cover packages
            return allow(_ALLOWED_BEFORE)
        reason = f"{_display_name(call, folder)} holds packages, which programs load unseen."
        return ask(reason, f"--allow '{rule}'", *_make_lasting_rule(folder, rule))
    rule = _make_file_rule(call, real)
    hint = f"--allow '{rule}'"
    makes_link = change is not None and change.is_link
    if places.runs_later(path, call.where.place.git, call.where.named(), as_link=makes_link):
        reason = f"{name} is run later by other programs without asking."
        return ask(reason, hint, runs_unattended=is_full)
    tainted = call.tainted()
    if (tainted or change is not None) and places.steers_agents(path):
        why = "a command wrote it: change it with edit_file"
        why = "this session has read outside text" if tainted else why
        return ask(f"{name} gives agents instructions, and {why}.", hint, runs_unattended=is_full)
    if places.is_in_tmp(path, call.where):
        return allow("It writes in the session's own /tmp, as any command may.")
    if is_full or (call.mode == "auto-edit" and place == "root"):
        return allow(_MODE_ALLOWS)
    if call.is_approved(path):
        return allow(_ALLOWED_BEFORE)
    if place != "root":
        return ask(f"{name} is outside the working folders.", hint, *_make_lasting_rule(path, rule))
    around = _real_target(call, folder) if in_ignored else os.path.dirname(real)
    wide = Rule("edit", f"{_make_file_rule(call, around).pattern}/**")
    is_wide = in_ignored or wide.pattern.startswith("./")
    offer = _make_lasting_rule(path, wide if is_wide else rule)
    more = {"narrow_rules": _make_lasting_rule(path, rule), "only_mode_asks": True}
    return ask("", "--permission-mode auto-edit", *offer, **more)


def _make_file_rule(call: Call, real: str, name: str = "edit") -> Rule:
    project = places.real(call.place.project)
    is_inside = real != project and is_below(real, project)
    return Rule(name, f"./{os.path.relpath(real, project)}" if is_inside else real)


def _make_lasting_rule(path: str, rule: Rule) -> tuple[str, ...]:
    """The rule to offer permanently; none for a path with a wildcard, since the rule would be a
    glob: a file may be called `**`."""
    return () if {"*", "?"} & {*path, *places.real(path)} else (str(rule),)


def _real_target(call: Call, path: str) -> str:
    """The real path of what a call changes: if a command changed a link, of the link itself."""
    folder, name = os.path.split(path)
    is_link = call.change is not None and os.path.islink(path)
    return os.path.join(places.real(folder), name) if is_link else places.real(path)


def _display_name(call: Call, path: str) -> str:
    cwd = call.where.cwd
    return os.path.relpath(path, cwd) if is_below(path, cwd) else to_command(call.place, path)


# Command lines: each part is judged by rules, then by what it needs outside the sandbox.


def ask_outside(call: Call, blocked: Sequence[Blocked]) -> Decision:
    """Asks whether a command that failed because of the sandbox may run again outside it."""
    line = judge_command(call.action.arguments.get("command"), call.where)
    what = ", ".join(attempt.words for attempt in blocked)
    failure = f"It failed in the sandbox, where it {what}."
    folders = [it.where if it.what == "hidden" else git_folder_above(it.where) for it in blocked]
    reason = f"{failure} Run it outside?"
    question = _ask_for(line.parts, reason, "--permission-mode full", decisive=failure)
    if folders and all(folders):
        flag = " ".join(f"--add-dir {shlex.quote(it)}" for it in dict.fromkeys(folders))
        question = replace(question, consent=replace(question.consent, flag=flag))
    from_outside = any(attempt.what != "write" for attempt in blocked)
    source = f"the output of `{line.parts[0].text}`" if from_outside else ""
    return replace(question, line=line, untrusted=source)


def find_outside_source(
    line: "ShellLine", where: places.PathRules, *, private: bool = False
) -> str:
    """The outside source of a line's output; "" if there is none. `private`: the line runs in the
    sandbox, whose loopback and `/tmp` hold only what the session's commands put there."""
    for part in line.parts:
        stays = private and not part.leaves
        if part.risk == "network" and not stays:
            return f"the output of `{part.text}`"
        for path in part.reads:
            if (part.outside and not stays) or places.is_log(path, where):
                return path
    return ""


def judge_command(command: object, where: places.PathRules) -> "ShellLine":
    """What a command line would do. The first call imports half of the gate's code and tables."""
    from kode.permissions.shell.judge import judge_line

    return judge_line(command if isinstance(command, str) else "", where)


def _decide_run(call: Call) -> Decision:
    line = judge_command(call.action.arguments.get("command"), call.where)
    decision = _decide_line(call, line)
    if decision.outcome == "deny":
        return decision
    private = call.sandbox == "layered" and decision.run_in != "host" and not call.sandbox_network
    source = find_outside_source(line, call.where, private=private)
    return replace(decision, line=line, untrusted=source)


def _decide_line(call: Call, line: "ShellLine") -> Decision:
    for part in line.parts:
        if part.leaves == "kode":
            return deny(f"`{part.text}` would write in a folder of kode's own.")
        if denied := _line_rule(call, call.rules.deny, part, loosely=True):
            return _deny_by(denied)
    if call.mode == "plan":
        # Changes would be dropped, so a command that clearly makes some is refused at once.
        for part in line.parts:
            changes = part.argv is not None and part.risk in ("write", "destructive")
            if not part.outside and (changes or _asks_at_once(call, part)):
                return _deny_in_plan(f"`{part.text}`: it {part.reason}. That")
        return _try_in_sandbox(call, line)
    for part in line.parts:
        if asking := _line_rule(call, call.rules.ask, part, loosely=True):
            return ask(f"The rule `ask {asking}` says so.")
    if not line.known and any(rule.kind == "shell" for rule in call.rules.deny):
        reason = "A deny rule might match it: not all of its words are known."
        return ask(reason, "a line of plain words")
    lasting = (*call.rules.allow, *call.approved())
    permitted = [
        it
        for it in line.parts
        if _line_rule(call, call.rules.allow if it.is_grave else lasting, it)
    ]
    rest = [part for part in line.parts if part not in permitted]
    risky = [part for part in rest if part.risk != "safe"]
    if any(map(partial(_asks_at_once, call), rest)):
        # A yes runs the whole line outside, so every part that does more than read is named.
        return _ask_about(call, risky)
    if call.mode == "full" and not call.sandbox_forced:
        return allow(_MODE_ALLOWS)
    if permitted and not risky and line.known:
        return allow("Rules or earlier answers allow every part of it.")
    if any(map(partial(_asks_at_once, call), permitted)):
        return _ask_about(call, risky or line.parts)
    return _try_in_sandbox(call, line)


def _try_in_sandbox(call: Call, line: "ShellLine") -> Decision:
    """Decides a line that needs no question: it runs in the sandbox, if there is one."""
    if call.sandbox in ("layered", "plain"):
        if call.mode == "plan":
            return replace(allow("Mode plan changes nothing."), run_in="read_only")
        return replace(allow("It runs in the sandbox."), run_in="sandbox")
    if call.sandbox == "none" and call.sandbox_forced:
        reason = "Commands must run in a sandbox, and this machine has none (`kode doctor`)."
        return deny(reason, by="sandbox")
    if line.only_reads:
        return allow("It only reads.")
    if call.sandbox == "unknown":  # which is no reason to ask for more rights
        why = "The sandbox's self-test ran out of time, because the machine is busy."
        return deny(f"{why} Run the same command again in a while.", by="sandbox")
    if call.mode == "plan":
        return _deny_in_plan("Without a sandbox, a command that is not known to only read")
    return _ask_about(call, [part for part in line.parts if part.risk != "safe"] or line.parts)


def _asks_at_once(call: Call, part: "LinePart") -> bool:
    if call.mode == "full":
        stays = call.sandbox == "layered" and call.sandbox_forced and not part.leaves
        return not stays and part.is_grave  # so is a file with keys
    if call.sandbox in ("layered", "unknown"):
        return bool(part.leaves)
    # In a plain sandbox the project is read-only and all else hidden: an attempt would only fail.
    return part.risk not in ("safe", "unknown") or part.outside or bool(part.leaves)


def _line_rule(
    call: Call, among: Iterable[Rule], part: "LinePart", *, loosely: bool = False
) -> Rule | None:
    """The first rule that matches a part's words or (`loosely`) a file that the part names."""
    named = {"read": part.reads, "edit": part.writes} if loosely else {}

    def is_about(rule: Rule) -> bool:
        paths = named.get(rule.name, ()) if rule.pattern else ()
        return grammar.matches_argv(rule, part.argv, loosely=loosely) or any(
            grammar.matches_path(rule, path, call.place, loosely=True) for path in paths
        )

    return next(filter(is_about, among), None)


def _ask_about(call: Call, parts: Sequence["LinePart"]) -> Decision:
    """One question that names each risky part in a sentence."""
    grave = [part for part in parts if part.risk == "destructive"]
    is_clear = not any(part.leaves == "keys" or part.risk == "unknown" for part in parts)
    decisive = instead = ""
    if decides := next((part for part in parts if _asks_at_once(call, part)), None):
        text = shorten(decides.text, MAX_NAMED_CHARS)
        is_secret = decides.leaves == "keys"
        reason = "names a file that is likely to hold keys" if is_secret else decides.reason
        decisive, instead = f"`{text}` {reason}.", _INSTEAD.get(decides.leaves, "")
        if instead and len(parts) > 1:
            instead = f"{instead} The rest of the line can run without it."
    sentences = {part: f"`{part.text}` {part.reason}. {part.undo}".strip() for part in parts}
    reasons = dict.fromkeys(sentences[part] for part in parts if part not in grave)
    flag = "an allow rule" if call.mode == "full" else "--permission-mode full"
    dangers = tuple(dict.fromkeys(sentences[part] for part in grave))
    more = {"dangers": dangers, "decisive": decisive, "instead": instead}
    is_unattended = call.mode == "full" and is_clear
    return _ask_for(parts, "\n".join(reasons), flag, runs_unattended=is_unattended, **more)


def _ask_for(parts: Sequence["LinePart"], reason: str, flag: str, **values: Any) -> Decision:
    """Asks about these parts, with the flags that allow all of them (`flag` if no rule can, or more
    than `MAX_FLAGS` would be needed) and the rules to offer, of which a grave part leaves none."""
    wide, exact = dict[str, None](), dict[str, None]()
    for part in parts if all(part.argv for part in parts) else ():
        rule = grammar.make_shell_rule(part.argv or (), prefix=False)
        exact[str(rule)] = None
        wide[str(grammar.make_shell_rule(part.offer, prefix=True) if part.offer else rule)] = None
    if wide and len(wide) <= MAX_FLAGS:
        flag = " ".join(f"--allow {shlex.quote(rule)}" for rule in wide)
    if any(part.is_grave for part in parts):
        wide = exact = {}
    return ask(reason, flag, *wide, narrow_rules=tuple(exact), **values)
