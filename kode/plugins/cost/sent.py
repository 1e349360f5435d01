"""Reconstructs the requests of a session's turns as they were sent, from its entries.

The record of a request says which parts it had (`requests.py`); the texts are those of the session
at that point, and parts with a digest are checked against it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kode.plugin import (
    AnyEntry,
    Chain,
    Header,
    Message,
    PartDigest,
    RequestEntry,
    Session,
    Step,
    digest_of,
    kept_tools,
    sections_of,
    step_of,
)


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One request of a turn."""

    record: RequestEntry
    """Complete, see `requests.complete`."""
    number: int
    """Index of the record among the session's entries."""
    system: str
    messages: Sequence[Message]
    """The session's messages, which may have grown since: only `record.messages` were sent."""
    digests: Sequence[str]
    """Chained, one per message; see `requests.Chain`."""
    step: Step | None = None
    """The cost of its answer; None if none came."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A section of the system prompt, or a tool."""

    kind: str
    """`system` or `tool`."""
    name: str
    digest: str
    size: int
    text: str | None
    """None if it is not kept."""


def requests_of(header: Header, entries: Sequence[AnyEntry]) -> list[Sent]:
    """The requests of all turns, oldest first, including rewound ones."""
    session, chain = Session(header=header, path=None), Chain()
    requests: list[Sent] = []
    for number, entry in enumerate(entries):
        session.append(entry)
        if isinstance(entry, RequestEntry) and entry.purpose == "turn":
            assert session.last_request is not None
            requests.append(
                Sent(
                    record=session.last_request,
                    number=number,
                    system=session.system,
                    messages=session.messages,
                    digests=chain.of(session.messages),
                )
            )
            continue
        step = step_of(entry)
        if step and step.purpose == "turn" and requests and requests[-1].step is None:
            requests[-1] = replace(requests[-1], step=step)
    return requests


def pieces(home: Path, sent: Sent) -> list[Piece]:
    """The parts before the messages, in the order the server reads them: in Anthropic's format
    tools come first, elsewhere the system prompt."""
    record = sent.record
    texts = sections_of(sent.system, record)
    system = [_piece("system", part, texts.get(part.name)) for part in record.system or ()]
    texts = kept_tools(home, record.tools_kept)
    tools = [_piece("tool", part, texts.get(part.name)) for part in record.tools or ()]
    return [*tools, *system] if record.provider == "anthropic" else [*system, *tools]


def _piece(kind: str, part: PartDigest, text: str | None) -> Piece:
    kept = text is not None and digest_of(text.encode("utf-8", "replace")) == part.digest
    return Piece(
        kind=kind,
        name=part.name,
        digest=part.digest,
        size=part.size,
        text=text if kept else None,
    )
