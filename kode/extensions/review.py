"""Finds what a repository brings that waits for approval, and asks one question about it.

Besides extensions, this is about instruction files written by a session that had read outside text.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kode import paths
from kode.credentials import redact
from kode.extensions import found_extensions, trust
from kode.extensions.mcp_config import find_servers
from kode.extensions.trust import Approvals, Item
from kode.messages import first_of
from kode.paths import real_path
from kode.permissions.places import is_named_like_keys
from kode.permissions.question import Ask, Question, visible
from kode.prompts.agents_files import ProjectInstructions, Source, read_agents_files

LONGEST_KEY_LINES = 200  # an RSA key of 16,384 bits, a line for each 64 characters
LASTS = "Your approval lasts until it changes; `kode extensions revoke NAME` withdraws it."

SHOWN_LINES = 60
"""Lines of one item in the question; `kode extensions trust show` shows everything."""

DOWNLOADS = (
    "It never ran here, and wants the network, as `npx` and `uvx` do to install a server. For "
    "this one start in the sandbox it can use the network, and what listens on this machine and "
    "beside it, read the project and what `read` names here, and send that and the variables named "
    "here; it cannot change the project. Later starts have no network."
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
        if asked and await self._ask_once(approvals, asked, *map(trust.digest, asked)):
            return tuple(item for item in pending if item not in asked)
        return tuple(pending)

    async def may(self, project: Path, wanted: Item) -> bool:
        """Whether a server or hook may do what `ALONE` names: run without a sandbox
        (`trust.outside`), or start once with the network (`mcp_server.download_item`). Asks about
        each, until it changes. Raises: as `review`."""
        approvals = trust.load(self.home, project)
        if trust.state(wanted, approvals) == "trusted":
            return True
        return await self._ask_once(
            approvals, [wanted], f"{name_of(wanted)} {trust.digest(wanted)}"
        )

    async def _ask_once(self, approvals: Approvals, items: Sequence[Item], *refusals: str) -> bool:
        if self.ask is None or self.declined.issuperset(refusals):
            return False
        is_approved = await ask_approval(self.home, items, approvals, self.ask)
        if not is_approved:
            self.declined.update(refusals)
        return is_approved


async def ask_approval(
    home: Path, items: Sequence[Item], approvals: Approvals, ask: Ask, most: int = SHOWN_LINES
) -> bool:
    """Asks one question about all items, and approves them as they were shown. Raises:
    StorageError, BusyError."""
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
        subject=visible(", ".join(map(name_of, items))),
        title=title,
        preview=visible("\n\n".join(describe(item, approvals, lines=most) for item in items)),
        reason=f"{reason} {LASTS}",
        kind="trust",
        until_changed=True,
        takes_words=False,
    )
    if (await ask(question)).choice == "no":
        return False
    trust.approve(home, approvals.project, items)
    return True


def describe(item: Item, approvals: Approvals, *, lines: int = SHOWN_LINES) -> str:
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
    head = [f"{name_of(item)} ({state}, from {item.origin}{after})", item.can]
    return "\n".join((*filter(None, head), *texts))


def name_of(item: Item) -> str:
    """`MCP server files`."""
    return f"{_KINDS.get(item.kind, item.kind)} {item.name}"


# ── what waits for approval ──────────────────────────────────────────────────────────────────


def find_items(home: Path, cwd: Path) -> tuple[Item, ...]:
    """Everything found for `cwd`, trusted or not. Never raises."""
    servers = (entry.item for entry in find_servers(home, cwd).entries)
    return (*servers, *found_extensions.items(home, cwd), *find_instruction_items(home, cwd))


MAX_NAMED = 5  # a note of one line


def read_instructions(home: Path, cwd: Path) -> ProjectInstructions:
    """The current instructions for agents in `cwd`, without those that wait for approval, which the
    warning names; see `prompts.agents_files`. Never raises."""
    project = paths.project_root(cwd)
    approvals = trust.load(home, project)
    instructions = _read_instructions(cwd, approvals)
    warnings = [instructions.warning, approvals.problem]
    if names := [_make_item(source, project).name for source in instructions.waiting]:
        warnings.append(
            f"Left out of the instructions: {', '.join(first_of(names, MAX_NAMED))}, written by a "
            "session that had read outside text. `kode extensions approve` shows and approves it."
        )
    return replace(instructions, warning=" ".join(filter(None, warnings)))


def find_instruction_items(home: Path, cwd: Path) -> tuple[Item, ...]:
    """The instructions that wait for approval. Never raises."""
    project = paths.project_root(cwd)
    approvals = trust.load(home, project)
    if approvals.marks is None or not approvals.marks.paths:
        return ()
    waiting = _read_instructions(cwd, approvals).waiting
    return tuple(_make_item(source, project) for source in waiting)


def _read_instructions(cwd: Path, approvals: Approvals) -> ProjectInstructions:
    def waits(source: Source) -> bool:
        item = _make_item(source, approvals.project)
        return trust.state(item, approvals) != "trusted"

    def is_secret(path: str) -> bool:
        return is_named_like_keys(path, is_folder=False)

    repository = paths.repository_root(cwd)
    return read_agents_files(cwd, repository, is_secret=is_secret, waits=waits)


def _make_item(source: Source, project: Path) -> Item:
    real = Path(real_path(source.path))
    return Item(
        kind="instructions",
        name=str(real.relative_to(project) if project in real.parents else real),
        origin=real,
        scope="project",
        content=f"{source.text}\n",
        sha256=source.sha256,
    )
