"""Finds what a repository brings that waits for approval, and asks one question about it.

`FINDERS` lists the finders: a new kind of extension is one line there.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kode import paths
from kode.credentials import redact
from kode.extensions import foreign, found_extensions, instructions, mcp_config, trust
from kode.extensions.trust import Approvals, Item
from kode.permissions.question import Ask, Question, visible

Finder = Callable[[Path, Path], Iterable[Item]]
"""(home, cwd) → what was found. Never raises: it reports what it cannot read itself."""

FINDERS: tuple[Finder, ...] = (
    mcp_config.items,
    found_extensions.items,
    instructions.items,
    foreign.items,
)

LONGEST_KEY_LINES = 200  # an RSA key of 16,384 bits, a line for each 64 characters
LASTS = "Your approval lasts until it changes; `kode extensions revoke NAME` withdraws it."

SHOWN_LINES = 60
"""Lines of one item in the question; `kode extensions trust show` shows everything."""

DOWNLOADS = (
    "It never ran here, and wants the network, as `npx` and `uvx` do to install a server. For "
    "this one start in the sandbox it can use the network, read the project, and send "
    "what it reads and the variables named here; it cannot change the project. Later starts "
    "have no network."
)
_OUTSIDE = (
    "Run it without a sandbox",
    "There is no sandbox here (`kode doctor`), you turned it off, or its entry says `outside`: it, "
    "and what it loads from the project, can read your keys, change files and use the network.",
)
ALONE: Mapping[str, tuple[str, str]] = {
    "mcp-outside": _OUTSIDE,
    "hook-outside": _OUTSIDE,
    "mcp-download": ("Start it once with the network, for what it downloads", DOWNLOADS),
}
"""Kind of an item that is asked about alone → the title of the question, and what a yes means."""

_KINDS = {
    "mcp": "MCP server",
    "mcp-tool": "MCP tool",
    "mcp-outside": "without a sandbox: MCP server",
    "mcp-download": "one start with the network: MCP server",
    "hook-outside": "without a sandbox: hook",
}


def find_items(home: Path, cwd: Path) -> tuple[Item, ...]:
    """Everything found for `cwd`, trusted or not."""
    return tuple(item for find in FINDERS for item in find(home, cwd))


@dataclass(frozen=True)
class Reviewer:
    """Asks a person, each question once in this process."""

    home: Path
    ask: Ask | None
    """None: nobody can be asked, and what is not approved stays off."""
    declined: set[str] = field(default_factory=set)
    """What the person refused."""

    async def review(self, cwd: Path, *, trust_project: bool = False) -> tuple[Item, ...]:
        """Asks about everything new or changed at once; returns what stays off.

        Raises: StorageError, BusyError if an approval cannot be saved.
        """
        project = paths.project_root(cwd)
        approvals = trust.load(self.home, project, trust_project=trust_project)
        items = await asyncio.to_thread(find_items, self.home, cwd)
        pending = [item for item in items if trust.state(item, approvals) != "trusted"]
        asked = [item for item in pending if trust.digest(item) not in self.declined]
        if asked and await self._approves(approvals, asked, *map(trust.digest, asked)):
            return tuple(item for item in pending if item not in asked)
        return tuple(pending)

    async def may_change(self, project: Path, item: Item) -> bool:
        """Whether an item that changed within a session may be used as it is now; asks about each
        change. Raises: as `review`."""
        approvals = trust.load(self.home, project)
        return await self._approves(approvals, [item], shown(item, approvals))

    async def may(self, project: Path, wanted: Item) -> bool:
        """Whether a server or hook may do what `ALONE` names: run without a sandbox
        (`trust.outside`), or start once with the network (`mcp_server.download_item`). Asks about
        each, until it changes. Raises: as `review`."""
        approvals = trust.load(self.home, project)
        if trust.state(wanted, approvals) == "trusted":
            return True
        return await self._approves(approvals, [wanted], f"{named(wanted)} {trust.digest(wanted)}")

    async def _approves(self, approvals: Approvals, items: Sequence[Item], *refusals: str) -> bool:
        if self.ask is None or self.declined.issuperset(refusals):
            return False
        is_approved = await ask_approval(self.home, items, approvals, self.ask)
        if not is_approved:
            self.declined.update(refusals)
        return is_approved


async def ask_approval(
    home: Path,
    items: Sequence[Item],
    approvals: Approvals,
    ask: Ask,
    most: int = SHOWN_LINES,
    grants: Sequence[str] = (),
) -> bool:
    """Asks one question about all items, and approves them as they were shown, with `grants` (see
    `trust.Approved`) for each. Raises: StorageError, BusyError."""
    title, reason = "Use this repository's extensions", "It can run programs or instruct the model."
    if items[0].kind in ALONE:
        title, reason = ALONE[items[0].kind]
    elif any(trust.written_after(item, approvals) for item in items):
        title = "Use what a session wrote that had read outside text"
    elif any(trust.state(item, approvals) == "changed" for item in items):
        title += ", which has changed since you approved it"
    if len(items) > 1:
        reason += " `kode extensions approve NAME` approves one alone."
    question = Question(
        tool="trust",
        subject=visible(", ".join(map(named, items))),
        title=title,
        preview=visible("\n\n".join(shown(item, approvals, lines=most) for item in items)),
        reason=f"{reason} {LASTS}",
        kind="trust",
        may_always=False,
        until_changed=True,
        takes_words=False,
    )
    if (await ask(question)).choice == "no":
        return False
    trust.approve(home, approvals.project, items, grants)
    return True


def shown(item: Item, approvals: Approvals, *, lines: int = SHOWN_LINES) -> str:
    """An item for a person, without credentials: its content, or what changed in it."""
    state = trust.state(item, approvals)
    body = trust.diff(item, approvals) if state == "changed" else item.content
    every = body.rstrip("\n").split("\n")
    # A key has several lines, so it is looked for before its end is cut off.
    texts = redact("\n".join(every[: lines + LONGEST_KEY_LINES])).split("\n")[:lines]
    if len(every) > lines:
        texts.append(f"… {len(every) - lines} more lines: `kode extensions trust show {item.name}`")
    source = trust.written_after(item, approvals)
    after = f", written after reading {source}" if source else ""
    head = [f"{named(item)} ({state}, from {item.origin}{after})", item.can]
    approval = approvals.find(item)
    if approval is not None and approval.grants:
        had = "It may besides" if state == "trusted" else "It had, and approving it does not give"
        head.append(f"{had}: {', '.join(approval.grants)}")
    return "\n".join((*filter(None, head), *texts))


def named(item: Item) -> str:
    """`MCP server files`."""
    return f"{_KINDS.get(item.kind, item.kind)} {item.name}"
