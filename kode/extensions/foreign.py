"""What settings files of other agents allow, and their variables, as items that a person approves.

Denials and questions need no yes: `kode.config.foreign` takes them. An allowance needs one wherever
the file lies, variables only in a repository.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from kode.config.foreign import ForeignSettings, find_foreign
from kode.extensions import trust
from kode.extensions.trust import Approvals, Item, Scope


def items(home: Path, cwd: Path, scope: Scope = "project") -> list[Item]:
    """See `review.Finder`. Nobody is asked about the person's own files, "home", which `kode
    extensions approve` takes by name."""
    return [
        item
        for settings in find_foreign(cwd)
        if settings.scope == scope and (settings.allow or scope == "project")
        for item in _items(settings)
    ]


def _items(settings: ForeignSettings) -> Iterable[Item]:
    """What of a file needs approval, one item if anything does."""
    wanted = {"allow": settings.allow, "env": dict(settings.environment)}
    if any(wanted.values()):
        yield Item(
            kind="settings",
            name="/".join(settings.path.parts[-2:]),
            origin=settings.path,
            scope=settings.scope,
            content=json.dumps({key: value for key, value in wanted.items() if value}, indent=2),
            covers=(str(settings.path),),
            can="What it allows runs unasked; its variables are for commands in the sandbox.",
        )


def approved_settings(
    foreign: Iterable[ForeignSettings], approvals: Approvals
) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """The rules that count as the person's, the variables for every command, and those for commands
    in the sandbox."""
    rules, own, inside = list[str](), dict[str, str](), dict[str, str]()
    for settings in reversed(tuple(foreign)):  # the nearest counts
        own |= settings.environment if settings.scope == "home" else {}
        if any(trust.state(item, approvals) == "trusted" for item in _items(settings)):
            rules += settings.allow
            inside |= settings.environment
    return rules, own, inside


def remarks(foreign: Iterable[ForeignSettings]) -> list[str]:
    """A line for each file of which something is not used, with the names of that; with the reasons
    too for one that was named, which `kode doctor` does not see."""
    lines = []
    for settings in foreign:
        names = [
            f"{name} ({why})" if settings.is_named else name
            for name, why in settings.unused.items()
        ]
        if text := settings.fault or ", ".join(names):
            lines.append(f"{settings.path}: {text}")
    return lines
