"""What an ended session changes in memory, in every system: a note, and its facts with their
relations to the known ones. All of it can be repeated after a kill at any step.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations

from kode.errors import MemoryRefused
from kode.events import MemoryChanged
from kode.memory import digest, question, scan
from kode.memory.fold import View
from kode.memory.pending import Pending
from kode.memory.policy import OpenMemory, Policy
from kode.memory.question import Answer, LearnedFact
from kode.memory.relations import Relations
from kode.memory.source import cite, verify_quote
from kode.memory.statement import Author, Change, Outcome, Statement, timestamp
from kode.memory.store import Store
from kode.memory.words import telling_stems
from kode.session.record import SessionRecord

MAX_ATTEMPTS = 5
"""Requests without an answer; then the note is the record without a model."""
NOTE, FACTS = "note", "learn"
"""The kinds of the two changes that a session makes."""


async def apply(
    store: Store, policy: Policy, record: SessionRecord, answer: Answer, shown: Sequence[str]
) -> list[Change]:
    """Writes the note of a session, and then its facts and relations, each unless that was done
    before. `shown`: the ids of the known statements in the question, in order. Facts that the
    system has no room for, the last first, stay in the note only. Raises: MemoryRefused,
    StorageError, BusyError."""
    lesson = _Lesson(store, policy, record, answer, shown)
    changes = await store.commit(lesson.note)
    while True:
        try:
            return changes + await store.commit(lesson.facts)
        except MemoryRefused:
            if not lesson.answer.facts:
                raise
            lesson = replace(lesson, answer=replace(answer, facts=lesson.answer.facts[:-1]))


@dataclass(frozen=True)
class _Lesson:
    """What an answer about a session changes."""

    store: Store
    policy: Policy
    record: SessionRecord
    answer: Answer
    shown: Sequence[str]

    def note(self, view: View) -> Change | None:
        """The change that adds the note; None if it was made before a kill, or says nothing new."""
        record, answer, draft = self.record, self.answer, self._draft(NOTE)
        if not answer.narrative or self.store.log.change(draft.id):
            return None
        refused = f"(A session of {record.turns} turns, whose note was refused.)"
        narratives = (answer.narrative, digest.record_of(record.messages) or refused, refused)
        outdated = {line - len(self.shown) - 1 for line, _ in answer.outdated}
        lasting = [fact.text for n, fact in enumerate(answer.facts) if n not in outdated]
        note = self.policy.note(
            record,
            next(text for text in narratives if not scan.scan(text)),
            [text for text in lasting if text and not scan.scan(text)],
        )
        earlier = self.policy.replaced_notes(view, record)
        if [old.text for old in earlier] == [note.text]:
            return None
        note = replace(
            note,
            replaces=tuple(old.id for old in earlier),
            state="waiting" if record.tainted_by else note.state,
            source=record.tainted_by or note.source,
            private=any(old.private and old.session == record.id for old in view.statements()),
        )
        # What waits takes the place of the earlier note once the person has approved it.
        return replace(draft, add=(note,), end=() if note.state == "waiting" else note.replaces)

    def facts(self, view: View) -> Change | None:
        """The change that adds the facts and ends what they outdate; None for none."""
        draft = self._draft(FACTS)
        if self.store.log.change(draft.id):
            return None
        answer, new, ended = self.answer, list[Statement](), list[str]()
        current = {statement.id for statement in view.current()}
        ids = {number: id for number, id in enumerate(self.shown, 1) if id in current}
        for number, fact in enumerate(answer.facts, len(self.shown) + 1):
            statement = self._statement(fact, number) if fact.text else None
            if statement is None:
                continue
            of_place = [old for old in view.entries.values() if old[0].place == statement.place]
            equal = [old for old in of_place if old.statement.text == statement.text]
            sessions = [entry.end.session for entry in equal if entry.end]
            # This session itself withdrew or changed it, or another one did and the person has not
            # said it again.
            if self.record.id in sessions or (sessions and not statement.quote):
                continue
            replaced = [entry.statement.id for entry in equal if entry.is_alive]
            # What the answer relates to others does more than say something again.
            is_related = any(number in pair for pair in (*answer.outdated, *answer.conflict))
            groups = [group for group in answer.same if number in group and not is_related]
            repeated = [ids[line] for group in groups for line in group if line in ids]
            known = [view.entries[id][0] for id in (*replaced, *repeated) if id in view.entries]
            rank = self.store.rank(statement)
            stronger = [old.id for old in known if self.store.rank(old) >= rank]
            ids[number] = (*stronger, statement.id)[0]
            if not stronger:
                new.append(replace(statement, replaces=tuple(replaced)))
                ended += replaced
        relations = _relations(view, answer, ids)
        if self.record.tainted_by:
            # Outside text may have worded the answer: nothing ends because of it alone.
            added = {statement.id for statement in new if statement.state == "current"}
            pairs = (*relations.outdated, *relations.conflict)
            relations = Relations(conflict=tuple(pair for pair in pairs if added & {*pair}))
        ended += (id for id in self._withdrawn(view) if id in current)
        change = self.store.settle(view, new, relations, draft)
        # What was said and changed again in the session was never current, but the log knows it.
        outdated, stays = {old for old, _ in relations.outdated}, {add.id for add in change.add}
        brief = [add for add in new if add.id in outdated and add.id not in stays]
        end = dict.fromkeys((*change.end, *ended, *(add.id for add in brief)))
        change = replace(change, add=(*change.add, *brief), end=tuple(end))
        return change if change.add or change.end or change.conflicts else None

    def _statement(self, fact: LearnedFact, number: int) -> Statement | None:
        """A new fact as it would stand; None if it is kept in the note only."""
        record, quote = self.record, verify_quote(fact.quote, self.record.typed)
        if (not quote and not self.policy.keeps_unquoted_facts) or scan.scan(fact.text):
            return None
        # What was said later in the session is the later claim.
        at = timestamp(record.ended_at + timedelta(milliseconds=number))
        statement = replace(self.policy.fact(fact, record), quote=quote, claimed_at=at)
        if record.tainted_by and not verify_quote(fact.text, record.typed):
            return replace(statement, state="waiting", quote="", source=record.tainted_by)
        if fact.source:
            with suppress(MemoryRefused):  # there are no such lines
                source, source_hash = cite(self.store.project.root, fact.source)
                return replace(statement, source=source, source_hash=source_hash)
        return statement

    def _withdrawn(self, view: View) -> Iterator[str]:
        """The ids of the known facts that the person withdrew in what they typed. Where outside
        text may have chosen the fact, a telling word of it stands in these words."""
        for line, quote in self.answer.withdrawn:
            words = verify_quote(quote, self.record.typed)
            for old in view.alive(self.shown[line - 1 : line]) if words else ():
                if not self.record.tainted_by or telling_stems(words) & telling_stems(old.text):
                    yield old.id

    def _draft(self, kind: str) -> Change:
        """A change with an id that tells, after a kill, whether it was made for these messages."""
        draft = self.store.draft(kind, Author("session", self.record.id, self.record.turns))
        source = f"{self.store.system} {kind} {self.record.id} {self.record.end}"
        return replace(draft, id=hashlib.sha256(source.encode()).hexdigest()[: len(draft.id)])


def _relations(view: View, answer: Answer, ids: Mapping[int, str]) -> Relations:
    """The relations of an answer, by id, without what the person has decided or has to decide."""
    closed = view.distinct | {frozenset(old.id for old in pair) for pair in view.conflicts()}

    def groups(rows: Iterable[Sequence[int]]) -> Iterator[tuple[str, ...]]:
        for row in rows:
            group = tuple(dict.fromkeys(ids[line] for line in row if line in ids))
            if len(group) > 1 and closed.isdisjoint(map(frozenset, combinations(group, 2))):
                yield group

    return Relations(
        same=tuple(groups(answer.same)),
        outdated=tuple((old, new) for old, new in groups(answer.outdated)),
        conflict=tuple((first, second) for first, second in groups(answer.conflict)),
    )


# ── one session ──────────────────────────────────────────────────────────────────────────────────


async def learn(
    memory: OpenMemory, policy: Policy, record: SessionRecord, pending: Pending
) -> bool:
    """Sums up a pending session that this process has taken; False if it stays pending, because the
    model could not be reached. Without a usable answer, and for a session not worth a question, the
    note is a record of what was done. Raises: MemoryRefused, StorageError, BusyError."""
    record = policy.part_to_sum_up(memory.store.view(), record)
    progress = pending.progress(record.id)
    is_open = bool(record.messages and not progress.answer) and policy.is_worth_asking(record)
    if is_open and progress.attempts >= MAX_ATTEMPTS:
        memory.warn(f"No model could sum up session {record.id}: its note says what was done.")
    elif is_open and memory.model.usable:
        pending.update(record.id, attempts=progress.attempts + 1)
        if not await policy.ask(memory, record, pending):
            return False
        progress = pending.progress(record.id)
    answer = question.read(progress.answer, len(progress.shown))
    record_text = policy.record_without_model(memory.store.view(), record)
    answer = replace(answer, narrative=answer.narrative or record_text)
    for change in await apply(memory.store, policy, record, answer, progress.shown):
        text = memory.store.describe(change).text
        memory.context.emit(MemoryChanged(text=text, change_id=change.id, of_session=True))
    quotes = {shown: quote for n, quote in answer.withdrawn for shown in progress.shown[n - 1 : n]}
    alive = memory.store.view().alive(quotes)
    if any(verify_quote(quotes[old.id], record.typed) for old in alive):
        memory.warn(
            f"You withdrew something in session {record.id}, which read {record.tainted_by}: no "
            "fact ended. Say which with `kode memory forget WHAT`."
        )
    pending.done(record.id)
    return True


async def consolidate(
    memory: OpenMemory,
    place: str,
    known: Sequence[Statement],
    *,
    timeout_s: float = 60.0,  # whoever waits has asked for it
) -> Outcome:
    """Joins known facts of a place that repeat or outdate others, as a model says. Raises:
    MemoryRefused if there are too few, or the model did not answer; StorageError, BusyError."""
    if len(known) < 2:
        raise MemoryRefused("There is nothing to consolidate: there are fewer than two facts.")
    reply = await memory.model.ask(
        question.INSTRUCTIONS,
        question.build("", known),
        max_output_tokens=question.MAX_OUTPUT_TOKENS,
        timeout_s=timeout_s,
    )
    if reply.failure:
        raise MemoryRefused(f"The model did not judge them ({reply.failure}). Nothing was changed.")
    answer, store = question.read(reply.text, len(known)), memory.store

    def make(view: View) -> Change | None:
        relations = _relations(view, answer, {n: fact.id for n, fact in enumerate(known, 1)})
        change = store.settle(view, [], relations, store.draft("consolidate", Author("model")))
        return change if change.end or change.conflicts else None

    changes = await store.commit(make)
    left = len(known) - sum(len(change.end) for change in changes)
    summary = f"consolidated {store.layout.label(place)}: {len(known)} entries, now {left}"
    return Outcome(text=summary, change=changes[-1] if changes else None)
