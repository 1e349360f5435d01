"""Both sides of a ledger brought up to date: what waits here is sent, and what colleagues wrote is
added.

The server decides the order. A line that meets what a colleague has changed first is fitted to it,
so copies that have nothing to send are alike.
"""

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kode.plugin import LedgerLine, MemoryRefused, Replica, Row
from kode.plugins.team.address import Address
from kode.plugins.team.fitting import ADDS_NOTHING, fitted, is_there, push_of
from kode.plugins.team.server import Membership, Server, Stale, Unreachable, open_server

PAGE = 200
"""Changes that are asked for at once."""
CURSOR = "team_cursor"
MEMBER = "team_member"
LAST = "team_last"
"""What the copy keeps: the last change taken in, who may see what, and when that was."""
TRIES = 3
"""Of a change that meets another one in the same moment."""


@dataclass
class Exchanged:
    """What one run did."""

    arrived: list[LedgerLine] = field(default_factory=list)
    """By colleagues, or this person elsewhere; oldest first."""
    faults: list[str] = field(default_factory=list)
    """What was refused, or gave way to what a colleague had changed; said once each."""
    own: set[str] = field(default_factory=set)
    """The ids of what was sent in parts, one a scope: those after the first."""
    sent: dict[str, str] = field(default_factory=dict)
    """Lines that arrived there → the id under which they did."""
    is_first: bool = False
    """Whether the copy was empty before."""


async def exchange(replica: Replica, address: Address) -> Exchanged:
    """Raises: Unreachable; BusyError while another process does it; MemoryRefused, StorageError."""
    async with replica.alone(), open_server(address) as server:
        done = Exchanged(is_first=not replica.kept(CURSOR))
        await _belong(replica, address, await server.membership())
        touched = await _send(replica, server, address, done)
        await _receive(replica, server, done, touched)
        return done


async def _belong(replica: Replica, address: Address, member: Membership) -> None:
    """Who sees other scopes than before reads all again; what they may see no more goes."""
    text = json.dumps([member.person, member.scopes])
    if replica.kept(MEMBER) != text:
        await replica.belong(member.person, member.sees)
        await replica.keep({CURSOR: "", MEMBER: text})
    if not member.scopes:
        raise MemoryRefused(
            f"{member.person} is no member of the team {address.team!r}. Whoever owns "
            f"the database runs `kode memory team admit {member.person}`."
        )


# ── sending ──────────────────────────────────────────────────────────────────────────────────


async def _send(replica: Replica, server: Server, address: Address, done: Exchanged) -> set[str]:
    """The ids of the statements that arrived lines touch."""
    touched: set[str] = set()
    for line, fault in replica.waiting():
        try:
            touched |= await _push(server, line, address, done)
        except Unreachable:
            raise
        except MemoryRefused as error:
            if str(error) == fault:
                continue
            done.faults.append(f"{line.reason} stays on this machine: {error}")
            await replica.refuse(line.id, str(error))
    return touched


async def _push(server: Server, line: LedgerLine, address: Address, done: Exchanged) -> set[str]:
    left = TRIES
    while True:
        left -= 1
        try:
            async with server.turn():
                return await _push_once(server, line, address, done)
        except Stale:
            if not left:
                raise


async def _push_once(
    server: Server, line: LedgerLine, address: Address, done: Exchanged
) -> set[str]:
    push = push_of(line)
    recorded = await server.recorded_id(str(push))
    if recorded is not None:
        done.sent[line.id] = recorded
        return line.ids
    standing = await server.stands(line.ids)
    if is_there(line, standing):
        done.sent[line.id] = line.id
        return line.ids
    kept = fitted(line, standing)
    if kept is None:
        done.sent[line.id] = ""
        if line.change["kind"] not in ADDS_NOTHING:
            done.faults.append(f"What a colleague changed first stands; not made: {line.reason}")
        return line.ids
    sides = (*kept.before, *kept.after)
    for number, scope in enumerate(sorted({str(row.get("scope", "user")) for row in sides})):
        part = f"-{number}" if number else ""
        undoes = kept.change["undoes"] and kept.change["undoes"] + part
        await server.append(
            scope,
            str(uuid.uuid5(push, scope) if part else push),
            address.host,
            {**kept.change, "id": kept.id + part, "undoes": undoes},
            [row for row in kept.before if row.get("scope", "user") == scope],
            [row for row in kept.after if row.get("scope", "user") == scope],
        )
        if part:  # here it is a part of the line that the ledger has
            done.own.add(kept.id + part)
    done.sent[line.id] = kept.id
    return line.ids | kept.ids


# ── receiving ────────────────────────────────────────────────────────────────────────────────


async def _receive(replica: Replica, server: Server, done: Exchanged, touched: set[str]) -> None:
    sent = done.sent
    while True:
        page = await server.since(int(replica.kept(CURSOR) or 0), PAGE)
        touched |= {id for _, line in page for id in line.ids}
        rows = await server.stands(touched) if touched else {}
        standing: dict[str, Row | None] = {id: rows.get(id) for id in touched}
        taken = await replica.take(
            [line for _, line in page],
            standing,
            sent=sent,
            own=done.own,
            keep={CURSOR: str(page[-1][0])} if page else {},
        )
        done.arrived += taken.arrived
        done.faults += taken.faults
        if not page:
            break
        sent, touched = {}, set()
    minute = datetime.now(UTC).isoformat(timespec="minutes")
    if replica.kept(LAST) != minute:  # a write each minute, not each turn
        await replica.keep({CURSOR: replica.kept(CURSOR) or "0", LAST: minute})
