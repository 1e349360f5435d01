"""What settings files of other agents allow, and their variables, as items that a person approves.

Denials and questions need no yes: `kode.config.foreign` takes them. An allowance needs one wherever
the file lies, variables only in a repository.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from kode.config.foreign import Foreign, find_foreign
from kode.extensions import trust
from kode.extensions.trust import Approvals, Item


def items(home: Path, cwd: Path) -> Iterable[Item]:
    """See `review.Finder`; of the person's own files none is asked about."""
    found = (one for one in find_foreign(cwd) if one.scope == "project")
    return [item for one in found for item in [item_of(one)] if item is not None]


def own_items(cwd: Path) -> list[Item]:
    """Those of the person's own files, which `kode extensions approve` takes by name."""
    found = (one for one in find_foreign(cwd) if one.scope == "home" and one.settings.allow)
    return [item for one in found for item in [item_of(one)] if item is not None]


def item_of(foreign: Foreign) -> Item | None:
    """What of a file needs a yes; None if nothing does."""
    said = foreign.settings
    if not said.allow and not said.environment:
        return None
    wanted = {"allow": said.allow, "env": dict(said.environment)}
    return Item(
        kind="settings",
        name="/".join(foreign.path.parts[-2:]),
        origin=foreign.path,
        scope=foreign.scope,
        content=json.dumps({key: value for key, value in wanted.items() if value}, indent=2),
        covers=(str(foreign.path),),
        can="What it allows runs without asking; its variables are for commands in the sandbox.",
    )


def taken(
    found: Iterable[Foreign], approvals: Approvals
) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """The rules that count as the person's, the variables for every command, and those for commands
    in the sandbox."""
    rules, own, inside = list[str](), dict[str, str](), dict[str, str]()
    for foreign in reversed(tuple(found)):  # the nearest counts
        item, said = item_of(foreign), foreign.settings
        if foreign.scope == "home":
            own |= said.environment
        if item is None or trust.state(item, approvals) != "trusted":
            continue
        rules += said.allow
        inside |= said.environment
    return rules, own, inside


def remarks(found: Iterable[Foreign]) -> list[str]:
    """A line for each file of which something is not used, with the names of that; with the reasons
    too for one that was named, which `kode doctor` does not see."""
    lines = []
    for one in found:
        unused = one.settings.unused
        why = (f"{name} ({why})" for name, why in unused.items()) if one.named else unused
        names = one.fault or ", ".join(why)
        if names:
            lines.append(f"{one.path}: {names}")
    return lines
