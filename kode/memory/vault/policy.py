"""The vault: an index before the first message, tools over files, a reflector at the end."""

from collections.abc import Sequence
from dataclasses import replace

from kode.memory import frame
from kode.memory.contract import Injection, InjectReason, Turn
from kode.memory.fold import View
from kode.memory.frame import mark_read
from kode.memory.markdown import LINES, SECTIONS
from kode.memory.pending import Pending
from kode.memory.policy import Addition, OpenMemory, Policy
from kode.memory.question import LearnedFact
from kode.memory.rendering import fingerprint
from kode.memory.statement import Author, Statement, statement_of_session
from kode.memory.tools import as_list_item
from kode.memory.vault.layout import as_episode, make_layout, month_place, place_in
from kode.memory.vault.reflect import reflect
from kode.memory.vault.tools import TOOLS, index_rows
from kode.session.record import SessionRecord

SHORT_CHARS = 1_000
"""Facts of at most this size together are shown whole: a weak model does not read them."""
HINT = "Use memory_read to load relevant files before responding."
INDEX, FACTS = "index", "facts"
"""The names in `seen` of the index and of short facts, which come again once they have changed."""


class VaultPolicy(Policy):
    tools = TOOLS

    def set_up(self) -> None:
        self.layout = make_layout(self.settings.vault.facts_allowlist)

    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        """The index, as the first user message. A resumed session has it already."""
        if INDEX in memory.seen and reason == "resume":
            return Injection()
        for name in (INDEX, FACTS):
            memory.seen.pop(name, None)
        return Injection(first_user=self._changed_index(memory))

    async def recall(self, memory: OpenMemory, turn: Turn) -> str:
        """The index again if it has changed, and short facts."""
        return "\n\n".join(filter(None, (self._changed_index(memory), self._short_facts(memory))))

    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        place = month_place(record.project, record.ended_at)
        text = SECTIONS.fit(as_episode(narrative, record.ended_at))
        return statement_of_session(record, place, text, kind="episode")

    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        place = place_in(record.project, f"facts/{fact.about}.md")
        return statement_of_session(record, place, LINES.fit(f"- {fact.text}"))

    def draft(self, memory: OpenMemory, addition: Addition, author: Author) -> Statement:
        """A line becomes a list item; an episode gets its month and its heading."""
        now, text = memory.context.now(), as_list_item(addition.text.strip())
        if text and addition.target.partition("/")[0] == "episodes":
            target, text = f"episodes/{now:%Y-%m}.md", as_episode(addition.text, now)
            addition = replace(addition, target=target)
        return memory.new_statement(replace(addition, text=text), author)

    def is_worth_asking(self, record: SessionRecord) -> bool:
        """The model judges that; only a session without a text of the person is left out."""
        return self.settings.llm_extract and bool(record.typed or record.messages)

    async def ask(self, memory: OpenMemory, record: SessionRecord, pending: Pending) -> bool:
        return await reflect(memory, record, pending, self.question(memory, record))

    def record_without_model(self, view: View, record: SessionRecord) -> str:
        """Only for a session without an episode: the model wrote that by tools."""
        has_episode = bool(self.replaced_notes(view, record))
        return "" if has_episode else super().record_without_model(view, record)

    def _changed_index(self, memory: OpenMemory) -> str:
        """The index in its documented format; "" if the model saw the same last time."""
        lines = list[str]()
        for row in index_rows(memory):
            size = f"{n}B" if (n := row["size"]) < 1024 else f"{n / 1024:.1f}KB"
            lines.append(f"- {row['path']} ({size}): {row['summary'] or '(no summary)'}")
        text = "\n".join(("Available memory:", *lines, "", HINT)) if lines else ""
        return _unless_seen(memory, INDEX, text)

    def _short_facts(self, memory: OpenMemory) -> str:
        """All facts if they are short, and the model has not seen them so."""
        places = memory.store.fact_places()
        texts = ((self.layout.label(place), memory.describe_file(place)) for place in places)
        body = "\n\n".join(f"{name}{text}" for name, text in texts if text)
        if len(body) > SHORT_CHARS or not _unless_seen(memory, FACTS, body):
            return ""
        for place in places:
            mark_read(memory.seen, place, memory.store.read_text(place) or "")
        return frame.wrap(frame.FACTS, body)


def _unless_seen(memory: OpenMemory, name: str, text: str) -> str:
    """A text; "" if the model saw the same under this name last time."""
    if memory.seen.get(name, "") == fingerprint(text):
        return ""
    mark_read(memory.seen, name, text)
    return text
