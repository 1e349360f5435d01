"""Finds what a repository brings that waits for approval, and asks one question about it.

`FINDERS` lists the finders: a new kind of extension is one line there.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kode import paths
from kode.credentials import redact
from kode.extensions import brought, foreign, instructions, mcp_config, trust
from kode.extensions.trust import Approvals, Item
from kode.permissions.gate import Ask, Question, visible

Finder = Callable[[Path, Path], Iterable[Item]]
"""(home, cwd) → what was found. Never raises: it reports what it cannot read itself."""

FINDERS: tuple[Finder, ...] = (
    mcp_config.items,
    brought.items,
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
"""What it means to say yes to `mcp_cache.wish`."""

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


async def review(
    home: Path, cwd: Path, *, trust_project: bool, ask: Ask | None, declined: set[str]
) -> tuple[Item, ...]:
    """Asks once about everything new or changed; without a person it stays off. `declined` holds
    the digests that the person refused in this process, and is extended. Returns what stays off.

    Raises: StorageError, BusyError if an approval cannot be saved.
    """
    project = paths.project_root(cwd)
    approvals = trust.load(home, project, trust_project=trust_project)
    items = await asyncio.to_thread(find_items, home, cwd)
    pending = [item for item in items if trust.state(item, approvals) != "trusted"]
    asked = [item for item in pending if trust.digest(item) not in declined]
    if asked and ask is not None:
        answer = await ask(question(asked, approvals))
        if answer.choice == "no":
            declined.update(map(trust.digest, asked))
        else:
            trust.approve(home, project, asked)
            pending = [item for item in pending if item not in asked]
    return tuple(pending)


async def may_change(
    home: Path, project: Path, item: Item, *, ask: Ask | None, declined: set[str]
) -> bool:
    """Whether an item that changed within a session may be used as it is now; asks once about each
    change. `declined` as in `review`.

    Raises: StorageError, BusyError if an approval cannot be saved.
    """
    asked = question([item], trust.load(home, project))
    if ask is None or asked.preview in declined:
        return False
    if (await ask(asked)).choice == "no":
        declined.add(asked.preview)
        return False
    trust.approve(home, project, [item])
    return True


async def may_run_outside(
    home: Path, project: Path, item: Item, *, ask: Ask | None, declined: set[str]
) -> bool:
    """Whether a server or hook may run without a sandbox; asks once about each, until it changes.
    `declined` as in `review`.

    Raises: StorageError, BusyError if an approval cannot be saved.
    """
    reason = (
        "There is no sandbox here (`kode doctor`), you turned it off, or its entry says "
        "`outside`: it, and what it loads from the project, can read your keys, change files and "
        "use the network."
    )
    title, wanted = "Run it without a sandbox", trust.outside(item)
    return await _may(home, project, wanted, title, reason, ask=ask, declined=declined)


async def may_download(
    home: Path, project: Path, wanted: Item, *, ask: Ask | None, declined: set[str]
) -> bool:
    """Whether a server may start once with the network: `wanted` is `mcp_cache.wish` of it. Asks
    once about each, until it changes. `declined` as in `review`.

    Raises: StorageError, BusyError if an approval cannot be saved.
    """
    title = "Start it once with the network, for what it downloads"
    return await _may(home, project, wanted, title, DOWNLOADS, ask=ask, declined=declined)


async def _may(
    home: Path,
    project: Path,
    wanted: Item,
    title: str,
    reason: str,
    *,
    ask: Ask | None,
    declined: set[str],
) -> bool:
    approvals = trust.load(home, project)
    if trust.state(wanted, approvals) == "trusted":
        return True
    refusal = f"{named(wanted)} {trust.digest(wanted)}"
    if ask is None or refusal in declined:
        return False
    what = (visible(named(wanted)), title, visible(shown(wanted, approvals)), reason)
    answer = await ask(_question(*what))
    if answer.choice == "no":
        declined.add(refusal)
        return False
    trust.approve(home, project, [wanted])
    return True


def question(items: Sequence[Item], approvals: Approvals) -> Question:
    """The one question about several items: what each is, and what it may run."""
    changed = any(trust.state(item, approvals) == "changed" for item in items)
    title = "Use this repository's extensions"
    if any(trust.written_after(item, approvals) for item in items):
        title = "Use what a session wrote that had read outside text"
    elif changed:
        title += ", which has changed since you approved it"
    what = visible("\n\n".join(shown(item, approvals) for item in items))
    reason = "It can run programs or instruct the model."
    return _question(visible(", ".join(map(named, items))), title, what, reason)


def _question(subject: str, title: str, preview: str, reason: str) -> Question:
    return Question(
        tool="trust",
        subject=subject,
        title=title,
        preview=preview,
        reason=f"{reason} {LASTS}",
        kind="trust",
        may_always=False,
        until_changed=True,
    )


def shown(item: Item, approvals: Approvals, *, lines: int = SHOWN_LINES) -> str:
    """An item for a person, without credentials: its content, or what changed in it."""
    state = trust.state(item, approvals)
    body = trust.diff(item, approvals) if state == "changed" else item.content
    every = body.rstrip("\n").split("\n")
    # A key has several lines, so it is looked for before its end is cut off.
    kept = redact("\n".join(every[: lines + LONGEST_KEY_LINES])).split("\n")[:lines]
    if len(every) > lines:
        kept.append(f"… {len(every) - lines} more lines: `kode extensions trust show {item.name}`")
    source = trust.written_after(item, approvals)
    after = f", written after reading {source}" if source else ""
    head = [f"{named(item)} ({state}, from {item.origin}{after})", item.can]
    approval = approvals.find(item)
    if approval is not None and approval.grants:
        had = "It may besides" if state == "trusted" else "It had, and approving it does not give"
        head.append(f"{had}: {', '.join(approval.grants)}")
    return "\n".join((*filter(None, head), *kept))


def named(item: Item) -> str:
    """`MCP server files`."""
    return f"{_KINDS.get(item.kind, item.kind)} {item.name}"
