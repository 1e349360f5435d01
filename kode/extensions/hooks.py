"""Hooks: programs that run at certain events of a session, as configured for this directory.

The shape is Claude Code's: `{"hooks": {EVENT: [{"matcher": "Bash|Edit", "hooks": [{"type":
"command", "command": "...", "timeout": 60}]}]}}`. kode adds `guard`, for a hook that must have run.

`hook_runs` runs them.
"""

import contextlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kode import paths
from kode.config.files import FILES, parse_document, project_folders
from kode.credentials import redact
from kode.errors import ConfigError
from kode.extensions.definitions import Bundle, ExtensionFolder, Surroundings, read_text
from kode.extensions.trust import Candidate, folder_content
from kode.values import Value, replace

EVENTS = (
    "SessionStart UserPromptSubmit PreToolUse PermissionRequest PostToolUse PostToolUseFailure "
    "PreCompact Stop SubagentStop Notification SessionEnd"
).split()
DEFAULT_TIMEOUT_S = 60.0  # as Claude Code's
MAX_TIMEOUT_S = 600.0  # as a command's

_AGENT_FOLDERS = {".claude", ".kode", ".agents", "hooks"}
_BETWEEN_WORDS = re.compile(r"[\s;&|()<>`=]+")
_WITHOUT_QUOTES = str.maketrans("", "", "\"'")
_VARIABLE = re.compile(r"^(?:~|\$\{?\w+\}?)/")

CHANGES_COUNT = ("PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop")
"""Events whose hooks may change the project, as formatters do: their changes are decided on like a
command's. Changes at other events are dropped, since nobody waits for them."""

JUDGES = ("PreToolUse", "PermissionRequest")
"""Events whose hooks decide whether something may be done. Other hooks can do no more than a
command that the model runs."""


class Hook(Value):
    item: Candidate
    event: str
    matcher: str
    command: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    guard: bool = False
    """Whether the action that it watches is blocked if the hook fails."""

    body = ""
    """A hook has no text for the model."""

    @property
    def description(self) -> str:
        return redact(self.command)

    @property
    def pins_loads(self) -> bool:
        """Whether its approval also pins the files that it loads in the sandbox."""
        return self.item.scope == "project" and self.event in JUDGES

    def matches(self, names: Sequence[str]) -> bool:
        """Whether its matcher fits one of these names, or there are none. A matcher is a list of
        names separated by `|`, or else a regular expression; "" and `*` fit all."""
        if self.matcher in ("", "*") or not names:
            return True
        if re.fullmatch(r"[\w|]*", self.matcher):
            return not {*names}.isdisjoint(self.matcher.split("|"))
        return any(re.search(self.matcher, name) for name in names)


def find_hooks(around: Surroundings) -> tuple[list[Hook], list[str]]:
    """Returns the hooks, bundles' last, and a sentence for each unusable one outside of bundles."""
    hooks, problems = list[Hook](), list[str]()
    for path, place in _list_hook_files(around):
        try:
            settings = parse_document(read_text(path, place), path) if path.is_file() else {}
        except ConfigError as error:
            problems.append(f"The hooks of {path} were left out: {str(error).rstrip('.')}.")
            continue
        folders = tuple(dict.fromkeys((place.folder, around.cwd, around.project)))
        hooks += _read_events(settings.get("hooks"), path, place, folders, problems)
    return [*hooks, *hooks_of_bundles(around.bundles, [])], problems


def hooks_of_bundles(bundles: Iterable[Bundle], problems: list[str]) -> Iterator[Hook]:
    """Yields the hooks of bundles; adds to `problems` a sentence for each unusable one."""
    for bundle in bundles:
        place = ExtensionFolder(folder=bundle.folder, scope="bundle", top=bundle.folder)
        for hook in _read_events(bundle.hooks, bundle.folder, place, (), problems):
            yield replace(hook, item=replace(hook.item, name=f"{bundle.name}:{hook.item.name}"))


def is_current(hook: Hook, around: Surroundings) -> bool:
    """Whether a hook's settings, and the project's programs that it names, are unchanged since this
    session began; always True for the person's own."""
    return hook.item.scope == "home" or any(
        other.item == hook.item for other in find_hooks(around)[0]
    )


def _list_hook_files(around: Surroundings) -> Iterator[tuple[Path, ExtensionFolder]]:
    for folder in project_folders(around.cwd):
        if folder != Path(paths.real_path(around.user_home)):  # its `.claude` is the person's own
            place = ExtensionFolder(folder=folder, scope="project", top=around.project)
            yield from ((folder / name, place) for name in FILES)
    home = ExtensionFolder(folder=around.user_home, scope="home", top=around.user_home)
    yield around.user_home / ".claude" / "settings.json", home
    yield paths.config_file(around.home), home


def _read_events(
    events: Any, path: Path, place: ExtensionFolder, folders: Sequence[Path], problems: list[str]
) -> Iterator[Hook]:
    """Yields the hooks in the `hooks` section of a settings file. Programs that they name are
    looked up in `folders`."""
    counts: Counter[str] = Counter()
    pairs = events.items() if isinstance(events, dict) else ()
    for event, group in ((event, group) for event, groups in pairs for group in _objects(groups)):
        if event not in EVENTS:
            problems.append(f"{path}: kode has no event {event!r} for hooks.")
            continue
        matcher = str(group.get("matcher") or "")
        name = f"{event}:{matcher}" if matcher else event
        for entry in _objects(group.get("hooks")):
            counts[name] += 1
            numbered = name if counts[name] == 1 else f"{name}:{counts[name]}"
            try:
                yield _read_hook(numbered, event, matcher, entry, path, place, folders)
            except ConfigError as error:
                reason = str(error).rstrip(".")
                problems.append(f"The hook {numbered} of {path} was left out: {reason}.")


def _objects(values: Any) -> list[dict[str, Any]]:
    """The items of a list; an item that is no object is replaced by an empty one."""
    return [it if isinstance(it, dict) else {} for it in values] if isinstance(values, list) else []


def _read_hook(
    name: str,
    event: str,
    matcher: str,
    entry: dict[str, Any],
    path: Path,
    place: ExtensionFolder,
    folders: Sequence[Path],
) -> Hook:
    """Raises: ConfigError."""
    command, timeout = entry.get("command"), entry.get("timeout", DEFAULT_TIMEOUT_S)
    if entry.get("type", "command") != "command":
        raise ConfigError(f"kode runs hooks of type command only, not {entry['type']!r}")
    if not isinstance(command, str) or not command.strip():
        raise ConfigError("it has no command")
    try:
        re.compile("" if matcher == "*" else matcher)
    except re.error as error:
        raise ConfigError(f"its matcher is not a regular expression ({error})") from None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ConfigError("its timeout is not a number of seconds")
    if entry.get("if"):
        raise ConfigError("kode knows no `if`: use `matcher`, or have the program look at the call")
    content = json.dumps({"event": event, "matcher": matcher, **entry}, indent=2)
    is_project_s = place.scope == "project"
    folders = folders if is_project_s else (place.folder,)
    covers = [path, *dict.fromkeys(_files_named(command, folders))]
    if is_project_s:
        programs = _find_programs(command, folders, place.top)
        content += "".join(f"\n{text}" for text in programs.values())
        covers += [program for program in programs if program not in covers]
    else:
        for program in covers[1:]:
            with contextlib.suppress(ConfigError):  # not text, so nothing that a person could judge
                content += f"\n=== {program}\n{read_text(program, place)}\n"
    changes = "need approval, as a command's do" if event in CHANGES_COUNT else "are dropped"
    return Hook(
        item=Candidate(
            kind="hook",
            name=name,
            origin=path,
            scope=place.scope,
            content=content,
            covers=tuple(map(str, covers)),
            can="It runs in the sandbox: no network, your home hidden, and its file changes "
            f"{changes}. `kode extensions approve NAME --outside` lets it run without one.",
        ),
        event=event,
        matcher=matcher,
        command=command,
        timeout_s=min(float(timeout), MAX_TIMEOUT_S),
        guard=entry.get("guard") is True,
    )


def _find_programs(command: str, folders: Sequence[Path], top: Path) -> dict[Path, str]:
    """The project files that a command line names, each with its text; a file in an agents' folder
    is replaced by that folder, because scripts there load each other. Raises: ConfigError."""
    programs: dict[Path, str] = {}
    place = ExtensionFolder(folder=top, scope="project", top=top)
    for path in (path for path in _files_named(command, folders) if top in path.parents):
        name = path.relative_to(top)
        if _AGENT_FOLDERS.isdisjoint(name.parts[:-1]) and path not in programs:
            programs[path] = f"=== {name}\n{read_text(path, place)}\n"
        elif path not in programs and path.parent not in programs:
            programs[path.parent] = folder_content(path.parent)
    return programs


def _files_named(command: str, folders: Sequence[Path]) -> Iterator[Path]:
    """The files that words of a command line may mean, in any of the folders. No shell expands the
    line: a variable or a command's output at the start of a word is left out."""
    with contextlib.suppress(ValueError):
        command = "\n".join((command.translate(_WITHOUT_QUOTES), *shlex.split(command)))
    for word in dict.fromkeys((*command.split("\n"), *_BETWEEN_WORDS.split(command))):
        name = _VARIABLE.sub("", word)
        for folder in folders:
            for path in (folder / name, folder / name.lstrip("/")) if name else ():
                real = Path(paths.real_path(path)) if "\0" not in name else folder
                if real.is_file():
                    yield real
