"""What the next message tells the model beside the person's words: that the person undid its work,
that something in the background has ended.

It follows from the entries alone, so that it is told after a kill and in another process too. A
message names the entries that it tells of; one that is rewound tells of nothing any more.
"""

from collections.abc import Iterable, Sequence

from kode.messages import Message, Text
from kode.session.entries import AnyEntry, JobEntry, MessageEntry, NoteEntry, UndoEntry
from kode.session.messages import effective, visible_messages


def note_of(entry: AnyEntry) -> str:
    """What the model is told of an entry; "" for nothing."""
    match entry:
        case UndoEntry():
            did, files = "redid" if entry.redo else "undid", ", ".join(entry.files)
            return f"[The person {did} your changes to: {files}. Read them again.]"
        case JobEntry() if entry.outcome:
            where = f" Its output is in {entry.output}." if entry.output else ""
            job = f"{entry.name} (`{entry.title}`)"
            return f"[The background job {job} has ended: {entry.outcome}.{where}]"
        case NoteEntry():
            return entry.text
    return ""


def find_unreported(entries: Sequence[AnyEntry]) -> list[AnyEntry]:
    """The entries that the model has yet to be told of, oldest first. What a rewind dropped matters
    no more, but an undo, or the end of a job, that came later than what it is about."""
    found = [entry for entry in entries if note_of(entry)]
    if not found:
        return []
    kept = effective(entries)
    ids = {entry.id for entry in kept}
    told = {id for entry in kept if isinstance(entry, MessageEntry) for id in entry.notes_of}
    return [one for one in found if one.id not in told and _reason(one) in ids]


def _reason(entry: AnyEntry) -> str:
    """The id of the entry without which there is nothing to tell."""
    return entry.of if isinstance(entry, UndoEntry | JobEntry) else entry.id


def notes(entries: Iterable[AnyEntry]) -> tuple[Text, ...]:
    """What a message tells of these entries."""
    return tuple(Text(text=one, source="note") for one in dict.fromkeys(map(note_of, entries)))


def as_message(entry: AnyEntry) -> MessageEntry | None:
    """A message, or an undo or a redo as a message of kode's; None for any other entry."""
    if isinstance(entry, UndoEntry):
        return MessageEntry(role="user", parts=notes([entry]), id=entry.id, at=entry.at)
    return entry if isinstance(entry, MessageEntry) else None


def conversation_messages(entries: Iterable[AnyEntry]) -> list[Message]:
    """The visible messages, for whoever judges what was done: undo and redo are
    messages of kode's, where they happened."""
    return visible_messages([as_message(entry) or entry for entry in entries])


def running_jobs(entries: Iterable[AnyEntry]) -> list[JobEntry]:
    """What began in the background and has not ended, as far as the entries tell."""
    running: dict[str, JobEntry] = {}
    for entry in entries:
        if isinstance(entry, JobEntry):
            if entry.outcome:
                running.pop(entry.of, None)
            else:
                running[entry.id] = entry
    return list(running.values())
