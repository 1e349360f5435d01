"""Decides whether a file may be read or edited: by rules about its path, then by its place and
kind."""

import os

from kode.permissions import places
from kode.permissions.decision import (
    Call,
    allow,
    ask,
    ask_by,
    deny,
    deny_by,
    deny_plan,
    shown,
)
from kode.permissions.rules import Rule
from kode.tool import Decision
from kode.workplace import below, located


def path_of(call: Call) -> str:
    """The absolute path that a call's argument means, its links not resolved."""
    return _path(call, "path", default=".")


def read(call: Call) -> Decision:
    path = path_of(call)
    named = [path, *_expand_glob(call, path)]
    for one in named:
        by_rule = _by_path_rule(call, one)
        if by_rule is not None and by_rule.outcome != "allow":
            return by_rule
    allowed = _by_path_rule(call, path)
    if allowed is not None:
        return allowed
    secret = next((one for one in named if places.is_secret(one, call.where)), None)
    if secret is not None:
        reason = f"{shown(call, secret)} is likely to hold keys or passwords."
        return ask(reason, f"--allow '{_file_rule('read', call, secret)}'")
    inside = places.find_place(path, call.where) == "root"
    if inside or places.is_readable(path, call.where):
        return allow("It reads the project.")
    if _covered(call, path):
        return allow("You allowed it before.")
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    rule = Rule("read", f"{folder.rstrip('/')}/**")
    reason = f"{shown(call, path)} is outside the working folders."
    if call.mode == "full":
        return allow(reason)
    offered = () if folder in ("/", call.where.home, *call.where.temp) else _lasting(folder, rule)
    narrow = _lasting(path, Rule("read", path)) if offered and folder != path else ()
    return ask(reason, f"--allow '{rule}'", *offered, narrow_rules=narrow)


def edit(call: Call) -> Decision:
    path = _path(call, "path", default="")
    real = _real(call, path)
    where = places.find_place(os.path.dirname(real) if os.path.islink(real) else path, call.where)
    if where == "protected":
        return deny(f"{shown(call, path)} belongs to kode; tools never write there.")
    by_rule = _by_path_rule(call, path)
    if by_rule is not None and by_rule.outcome == "deny":
        return by_rule
    if call.mode == "plan":
        return deny_plan("Editing a file")
    if by_rule is not None:
        return by_rule
    if call.is_dependency and call.mode != "full":
        return _ask_about_dependency(call)
    rule = _file_rule("edit", call, path)
    hint, full = f"--allow '{rule}'", call.mode == "full"
    if (
        places.runs_later(path, call.where.git)
        or places.is_named(path, call.where, as_link=call.makes_link)
        or (call.makes_link and places.may_hold_what_runs(path))
    ):
        reason = f"{shown(call, path)} is run later by other programs without asking."
        return ask(reason, hint, runs_unattended=full)
    if (call.taint or call.by_command) and places.steers_agents(path):
        seen = "this session has read outside text"
        why = seen if call.taint else "a command wrote it: change it with edit_file"
        reason = f"{shown(call, path)} gives agents instructions, and {why}."
        return ask(reason, hint, runs_unattended=full)
    inside = where == "root"
    if places.is_in_tmp(path, call.where):
        return allow("It writes in the session's own /tmp, as any command may.")
    if full or (call.mode == "auto-edit" and inside):
        return allow("The mode allows it.")
    if _covered(call, path):
        return allow("You allowed it before.")
    if inside:
        return ask(
            "Mode `ask` asks before every edit.",
            "--permission-mode auto-edit",
            *_lasting(path, _ignored_rule(call) or _folder_rule(call, path) or rule),
            narrow_rules=_lasting(path, rule),
            only_mode_asks=True,
        )
    outside = f"{shown(call, path)} is outside the working folders."
    return ask(outside, hint, *_lasting(path, rule))


def _ask_about_dependency(call: Call) -> Decision:
    """About a change in installed packages: until a person has said yes to this very folder."""
    rule = _ignored_rule(call) or _file_rule("edit", call, call.ignored)
    if rule in call.rules.approved:
        return allow("You allowed it before.")
    folder = call.ignored.rstrip("/")
    reason = f"{shown(call, folder)} holds packages, which programs load unseen."
    return ask(reason, f"--allow '{rule}'", *_lasting(folder, rule))


def _ignored_rule(call: Call) -> Rule | None:
    """The rule for all of the ignored folder that an edit is in; None if it is in none."""
    if not call.ignored.endswith("/"):
        return None
    rule = _file_rule("edit", call, call.ignored.rstrip("/"))
    return Rule("edit", f"{rule.pattern}/**")


def _lasting(path: str, rule: Rule) -> tuple[str, ...]:
    """The rule to offer permanently; none for a path that would be parsed as a glob. A file may be
    called `**`."""
    return () if {"*", "?"} & {*path, *places.real(path)} else (str(rule),)


def _folder_rule(call: Call, path: str) -> Rule | None:
    """The rule for a file's folder; None in the project's own folder, where it would be a rule for
    everything (use mode `auto-edit`), and outside of it."""
    project, folder = places.real(call.place.project), os.path.dirname(_real(call, path))
    if folder == project or not below(folder, project):
        return None
    return Rule("edit", f"./{os.path.relpath(folder, project)}/**")


def _real(call: Call, path: str) -> str:
    """The real path of what a call changes: of a link that a command changed, not of its target."""
    folder, name = os.path.split(path)
    linked = call.by_command and os.path.islink(path)
    return os.path.join(places.real(folder), name) if linked else places.real(path)


def _by_path_rule(call: Call, path: str) -> Decision | None:
    if denied := call.path_rule(call.rules.deny, path, loosely=True):
        return deny_by(denied)
    if asked := call.path_rule(call.rules.ask, path, loosely=True):
        return ask_by(asked)
    allowed = call.path_rule(call.rules.allow, path, loosely=False)
    return allow(f"The rule {allowed} allows it.") if allowed else None


def _covered(call: Call, path: str) -> bool:
    return call.path_rule(call.rules.approved, path, loosely=False) is not None


def _path(call: Call, name: str, *, default: str) -> str:
    value = call.arguments.get(name)
    text = value if isinstance(value, str) and value else default
    if text == "~" or text.startswith("~/"):
        text = call.where.home + text[1:]
    # As the tool finds it: only then may steps be taken out of it.
    path = located(call.place, os.path.join(call.where.cwd, text.replace("\0", "")))
    return os.path.normpath(path)


def _expand_glob(call: Call, path: str) -> list[str]:
    """The files that a glob or pattern argument names."""
    named = []
    for name in ("glob", "pattern"):
        value = call.arguments.get(name)
        is_glob = name == "glob" or call.tool.name == "list_files"
        if is_glob and isinstance(value, str) and value:
            named.append(os.path.normpath(os.path.join(path, value.replace("\0", ""))))
    return named if call.tool.name != "list_files" else []


def _file_rule(name: str, call: Call, path: str) -> Rule:
    project, real = places.real(call.place.project), _real(call, path)
    if real != project and below(real, project):
        return Rule(name, "./" + os.path.relpath(real, project))
    return Rule(name, real)
