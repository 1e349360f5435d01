"""Finds what a repository brings that waits for approval, and asks one question about it.

`FINDERS` lists the finders: a new kind of extension is one line there.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kode import paths
from kode.credentials import redact
from kode.extensions import foreign, found_extensions, instructions, mcp_config, trust
from kode.extensions.trust import Approvals, Item
from kode.messages import shorten
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

Part = tuple[Item, tuple[str, ...]]
"""One item as a person may approve it alone, with its grants (see `trust.Approved`)."""
MAX_PARTS = 99  # their numbers have two digits
MAX_NAME = 60  # characters in a choice; the preview has all
ONE_BY_ONE = (
    "y approves all of it; a opens what can be approved alone, and the rest is asked again."
)
MORE_FOR_HOOKS = (
    "More for one hook, behind a: with the network it can send what it reads; writing, it can "
    "change this project's files; outside the sandbox it can do all that you can."
)

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
        if asked and self.ask is not None:
            refused = await settle(self.home, asked, approvals, self.ask)
            self.declined.update(map(trust.digest, refused))
            pending = [item for item in pending if item not in asked or item in refused]
        return tuple(pending)

    async def may_change(self, project: Path, item: Item) -> bool:
        """Whether an item that changed within a session may be used as it is now; asks about each
        change. Raises: as `review`."""
        approvals = trust.load(self.home, project)
        refusal = question([item], approvals).preview
        if self.ask is None or refusal in self.declined:
            return False
        if refused := await settle(self.home, [item], approvals, self.ask):
            self.declined.add(refusal)
        return not refused

    async def may(self, project: Path, wanted: Item) -> bool:
        """Whether a server or hook may do what `ALONE` names: run without a sandbox
        (`trust.outside`), or start once with the network (`mcp_open.download_item`). Asks about
        each, until it changes. Raises: as `review`."""
        approvals = trust.load(self.home, project)
        if trust.state(wanted, approvals) == "trusted":
            return True
        refusal = f"{named(wanted)} {trust.digest(wanted)}"
        if self.ask is None or refusal in self.declined:
            return False
        title, reason = ALONE[wanted.kind]
        preview = visible(shown(wanted, approvals))
        answer = await self.ask(_question(visible(named(wanted)), title, preview, reason))
        if answer.choice == "no":
            self.declined.add(refusal)
            return False
        trust.approve(self.home, project, [wanted])
        return True


async def settle(
    home: Path,
    asked: Sequence[Item],
    approvals: Approvals,
    ask: Ask,
    most: int = SHOWN_LINES,
    grants: Sequence[str] = (),
) -> Sequence[Item]:
    """Asks until all items are approved, as they were shown, with `grants` for each, or refused;
    returns what is refused. Raises: StorageError, BusyError."""
    while asked:
        parts = [] if grants else parts_of(asked, home, approvals.project)
        answer = await ask(question(asked, approvals, parts, most))
        if answer.choice == "no":
            break
        chosen = [parts[at] for at in answer.items] or [(item, (*grants,)) for item in asked]
        for item, given in chosen:
            with_it = [trust.outside(item)] if trust.OUTSIDE in given else []
            trust.approve(home, approvals.project, [item, *with_it], given)
        asked = [item for item in asked if all(item is not it for it, _ in chosen)]
    return asked


def parts_of(items: Sequence[Item], home: Path, project: Path) -> list[Part]:
    """What of `items` can be chosen alone, at most `MAX_PARTS`: each of several, and, where all
    fit, each hook with what it may besides."""
    write = (str(project),) if trust.may_write_in(project, home, project) else ()
    network, outside = (trust.NETWORK,), (trust.OUTSIDE,)
    more = dict.fromkeys(((), network, write, network + write, outside))
    every = [(item, extra) for item in items for extra in (more if item.kind == "hook" else [()])]
    fitting = every if len(every) <= MAX_PARTS else [(item, ()) for item in items][:MAX_PARTS]
    return [(item, grants) for item, grants in fitting if grants or len(items) > 1]


def _words_of(item: Item, grants: Sequence[str]) -> str:
    """For a choice. A quoted name cannot pass for other words of it."""
    wording = {trust.NETWORK: "with the network", trust.OUTSIDE: "outside the sandbox"}
    name = json.dumps(shorten(item.name, MAX_NAME), ensure_ascii=False)
    kind = _KINDS.get(item.kind, item.kind)
    also = (wording.get(grant, "writing in this project") for grant in grants)
    return ", ".join((f"the {kind} {name}", *also))


def question(
    items: Sequence[Item], approvals: Approvals, parts: Sequence[Part] = (), most: int = SHOWN_LINES
) -> Question:
    """The one question about several items: what each is, what it may run, and which a yes may be
    limited to."""
    changed = any(trust.state(item, approvals) == "changed" for item in items)
    title = "Use this repository's extensions"
    if any(trust.written_after(item, approvals) for item in items):
        title = "Use what a session wrote that had read outside text"
    elif changed:
        title += ", which has changed since you approved it"
    what = visible("\n\n".join(shown(item, approvals, lines=most) for item in items))
    sentences = ["It can run programs or instruct the model."]
    sentences += [ONE_BY_ONE] if parts and len(items) > 1 else []
    sentences += [MORE_FOR_HOOKS] if any(grants for _, grants in parts) else []
    words = [_words_of(*part) for part in parts]
    names = visible(", ".join(map(named, items)))
    return _question(names, title, what, "\n".join(sentences), words)


def _question(
    subject: str, title: str, preview: str, reason: str, items: Sequence[str] = ()
) -> Question:
    return Question(
        tool="trust",
        subject=subject,
        title=title,
        preview=preview,
        reason=f"{reason} {LASTS}",
        kind="trust",
        may_always=False,
        until_changed=True,
        items=tuple(items),
        takes_words=False,
    )


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
