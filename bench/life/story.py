"""A project's life, generated from a seed: what is said, changed, misread, forgotten, poisoned,
what passes, the code that moves under a fact, and the questions about all of it.

Every statement has a value that occurs nowhere else, so that where it is shown can be found by that
word alone. What is true at any moment is kept by `Truth`. Not here: living it
(`bench.memory_life`).
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Literal

Kind = Literal[
    "work", "told", "changed", "misread", "observed", "moved", "shifted",
    "page", "forget", "passing", "asked",
]  # fmt: skip
By = Literal["person", "code", "page"]
State = Literal["stands", "changed", "forgotten", "moved", "expired", "false", "poison"]

FIRST_DAY = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
SESSIONS_A_DAY = 4
PASSES_AFTER_DAYS = 3

SERVICES = (
    "billing", "catalog", "gateway", "ledger", "mailer", "notifier", "reports", "search",
    "importer", "scheduler", "archive", "checkout", "identity", "inventory", "pricing", "ranking",
    "shipping", "translation", "webhook", "thumbnail",
)  # fmt: skip
ATTRIBUTES = {
    "port": ("The {s} service listens on port {v}", "Which port does the {s} service listen on?"),
    "owner": ("The owner of the {s} service is {v}", "Who is the owner of the {s} service?"),
    "backups": ("Backups of {s} go to the bucket {v}", "Where do the backups of {s} go?"),
    "queue": ("The {s} service takes its jobs from the queue {v}", "Which queue feeds {s}?"),
    "branch": ("Releases of {s} are cut from the branch {v}", "Where are releases of {s} cut?"),
    "table": ("The {s} service keeps its state in the table {v}", "Which table has {s}'s state?"),
    "label": ("Logs of {s} are found by the label {v}", "How are the logs of {s} found?"),
}
RETRIES = ("The {s} service gives up after the limit {v}", "When does the {s} service give up?")
"""Read from code by the model, which cites it."""
TOPICS = (
    "commit messages", "diagrams", "release notes", "error texts", "branch names", "test names",
    "reviews", "mock data", "log lines", "SQL", "docstrings", "estimates", "changelogs", "dates",
)  # fmt: skip
WISH = ("For {s} the user wants the style {v}", "Write {s} as I like them")

RATES: Mapping[Kind, float] = {
    "told": 0.55, "changed": 0.30, "misread": 0.06, "observed": 0.15, "moved": 0.10,
    "shifted": 0.06, "page": 0.08, "forget": 0.04, "passing": 0.06,
}  # fmt: skip
"""How often a session has each."""
NOTICED = 0.7
"""How often the model sees that a statement replaces something, and replaces it itself."""

_STARTS = ("br", "d", "f", "g", "k", "l", "m", "n", "p", "r", "st", "t", "v", "z")
_ENDS = ("andel", "orvin", "ulkar", "imbert", "ostik", "enmar", "avelo", "ippen", "urgas", "ellin")
_WORK = ("tidy up", "extend", "rename", "document", "speed up", "cover by tests")
_PARTS = ("the parser", "the retry loop", "the export", "the login form", "the cache", "the audit")


@dataclass(frozen=True, kw_only=True)
class Fact:
    key: tuple[str, str]
    """What it is about and which of its properties; one value at a time is true."""
    value: str
    """Occurs in no other fact."""
    text: str
    by: By = "person"
    about: Literal["user", "env"] = "env"
    source: str = ""
    """Lines of code that it rests on."""
    until: str = ""
    """The last day on which it holds."""
    told: str = ""
    """The day on which it was said."""


@dataclass(frozen=True, kw_only=True)
class Question:
    asks: tuple[tuple[str, str], ...]
    """The keys whose values the answer needs; one that nothing is known about asks for none."""
    hops: bool = False
    """Whether each key after the first is about the value found before: ("", property)."""
    after: Literal["", "changed", "misread", "page"] = ""
    """The contradiction that it looks back on."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """One turn. `text` is what the person says."""

    kind: Kind
    text: str
    fact: Fact | None = None
    """Told, read in code or on a page; of `forget` the one to forget; of `moved` the one whose
    lines change."""
    noticed: bool = True
    question: Question | None = None


@dataclass(frozen=True, kw_only=True)
class Session:
    number: int
    at: datetime
    turns: tuple[Said, ...]


@dataclass
class Truth:
    """What holds after the turns so far."""

    facts: dict[str, Fact] = field(default_factory=dict)
    """All that was ever said, by value."""
    states: dict[str, State] = field(default_factory=dict)
    standing: dict[tuple[str, str], Fact] = field(default_factory=dict)

    def hear(self, said: Said) -> None:
        """Takes in a turn. A reading of code or of a page never outweighs the person's word."""
        fact = said.fact
        if fact is None:
            return
        self.facts[fact.value] = fact
        old = self.standing.get(fact.key)
        match said.kind:
            case "told" | "changed" | "observed" | "passing":
                if old is not None:
                    self.states[old.value] = "changed"
                self.standing[fact.key] = fact
                self.states[fact.value] = "stands"
            case "misread":
                self.states[fact.value] = "false"
            case "page":
                self.states[fact.value] = "poison"
            case "moved" | "forget":
                self.standing.pop(fact.key, None)
                self.states[fact.value] = "moved" if said.kind == "moved" else "forgotten"
            case _:
                pass

    def turn_to(self, day: str) -> None:
        """Lets expire what held until an earlier day."""
        for fact in [fact for fact in self.standing.values() if fact.until and fact.until < day]:
            del self.standing[fact.key]
            self.states[fact.value] = "expired"

    def holds(self, fact: Fact) -> bool:
        return self.states.get(fact.value) == "stands"


def forget_text(fact: Fact) -> str:
    """What the person says; it does not repeat the value."""
    subject, about = fact.key
    return f"Please forget the {about} of {subject}."


def question_text(key: tuple[str, str]) -> str:
    subject, about = key
    if about == "style":
        return WISH[1].format(s=subject)
    if about == "limit":
        return RETRIES[1].format(s=subject)
    return ATTRIBUTES[about][1].format(s=subject)


def make_life(
    sessions: int,
    seed: int = 1,
    *,
    noticed: float = NOTICED,
    rates: Mapping[Kind, float] = RATES,
    a_day: int = SESSIONS_A_DAY,
) -> Iterator[Session]:
    """So many sessions, `a_day`. The first ones do not depend on how many there are."""
    maker = _Maker(random.Random(seed), noticed, rates)
    for number in range(sessions):
        day, hour = divmod(number, a_day)
        at = FIRST_DAY + timedelta(days=day, hours=3 * hour)
        yield Session(number=number, at=at, turns=tuple(maker.turns(number, at)))


class _Maker:
    """Makes one session after the other, keeping in mind what is true."""

    def __init__(self, rng: random.Random, noticed: float, rates: Mapping[Kind, float]) -> None:
        self._rng = rng
        self._noticed = noticed
        self._rates = rates
        self._numbers = count(1)
        self._truth = Truth()
        self._due: list[tuple[int, Question]] = []
        """Questions that look back on a contradiction, with the session they wait for."""
        self._cited: list[Fact] = []
        keys = [(service, about) for service in SERVICES for about in ATTRIBUTES]
        self._untold = [*keys, *((topic, "style") for topic in TOPICS)]
        rng.shuffle(self._untold)
        self._never = [self._untold.pop() for _ in range(len(self._untold) // 6)]

    def turns(self, number: int, at: datetime) -> Iterator[Said]:
        self._truth.turn_to(f"{at:%Y-%m-%d}")
        for _ in range(2):
            yield self._work()
        for kind, rate in self._rates.items():
            if self._rng.random() < rate:
                for said in self._make(kind, number, at):
                    self._truth.hear(said)
                    yield said
        yield from self._ask_due(number)

    def _work(self) -> Said:
        what = f"{self._rng.choice(_PARTS)} of {self._rng.choice(SERVICES)}"
        return Said(kind="work", text=f"{self._rng.choice(_WORK)} {what}")

    def _make(self, kind: Kind, number: int, at: datetime) -> Iterator[Said]:
        rng, day = self._rng, f"{at:%Y-%m-%d}"
        told = [f for f in self._truth.standing.values() if f.by == "person" and not f.until]
        if kind == "told" and self._untold:
            fact = self._fact(self._untold.pop(), day)
            yield Said(kind=kind, text=f"{fact.text}.", fact=fact)
        elif kind in ("changed", "misread", "page") and len(told) > 1:
            by: By = {"misread": "code", "page": "page"}.get(kind, "person")  # type: ignore[assignment]
            fact = self._fact(rng.choice(told).key, day, by=by)
            text = {"misread": "look around in the code", "page": "read this page"}.get(kind)
            noticed = kind == "changed" and rng.random() < self._noticed
            yield Said(kind=kind, text=text or f"{fact.text} now.", fact=fact, noticed=noticed)
            self._due.append((number + rng.randint(1, 6), Question(asks=(fact.key,), after=kind)))
        elif kind == "observed":
            service = rng.choice(SERVICES)
            if (service, "limit") not in self._truth.standing:
                source = f"config/{service}.toml:3"
                fact = self._fact((service, "limit"), day, by="code", source=source)
                self._cited.append(fact)
                yield Said(kind=kind, text=f"how does {service} fail?", fact=fact)
        elif kind in ("moved", "shifted"):
            cited = [fact for fact in self._cited if self._truth.holds(fact)]
            if cited:
                yield Said(kind=kind, text="work on the settings", fact=rng.choice(cited))
        elif kind == "forget" and len(told) > 4:
            fact = rng.choice(told)
            yield Said(kind=kind, text=forget_text(fact), fact=fact)
        elif kind == "passing":
            until = f"{at + timedelta(days=PASSES_AFTER_DAYS):%Y-%m-%d}"
            value = self._value("ticket")
            service = rng.choice(SERVICES)
            text = f"The {service} service is down for repairs, ticket {value}"
            fact = Fact(key=(service, value), value=value, text=text, until=until, told=day)
            yield Said(kind=kind, text=f"Until {until}: {text}.", fact=fact)

    def _fact(self, key: tuple[str, str], day: str, *, by: By = "person", source: str = "") -> Fact:
        subject, about = key
        value = self._value(about)
        shapes = {"style": WISH, "limit": RETRIES}
        text = shapes.get(about, ATTRIBUTES.get(about, WISH))[0].format(s=subject, v=value)
        target: Literal["user", "env"] = "user" if about == "style" else "env"
        return Fact(key=key, value=value, text=text, by=by, about=target, source=source, told=day)

    def _value(self, about: str) -> str:
        number = next(self._numbers)
        if about == "port":
            return str(10_000 + number)
        return f"{self._rng.choice(_STARTS)}{self._rng.choice(_ENDS)}{number}"

    def _ask_due(self, number: int) -> Iterator[Said]:
        """What is due, and one question more: about one fact, two, or none that is known."""
        due = [question for at, question in self._due if at <= number]
        self._due = [(at, question) for at, question in self._due if at > number]
        for question in due:
            if question.asks[0] in self._truth.standing:
                yield self._question(question)
        known = [f.key for f in self._truth.standing.values() if not f.until]
        many = self._rng.choice((1, 1, 1, 2, 0))
        if many == 0:
            yield self._question(Question(asks=(self._rng.choice(self._never),)))
        elif len(known) >= many:
            yield self._question(Question(asks=tuple(self._rng.sample(known, many))))

    def _question(self, question: Question) -> Said:
        text = " ".join(question_text(key) for key in question.asks)
        return Said(kind="asked", text=text, question=question)


# ── facts with serial numbers ────────────────────────────────────────────────────────────────

RELATIONS = {
    "employer": "{s} works for {v}",
    "city": "The seat of {s} is in {v}",
    "mayor": "The mayor of {s} is {v}",
}
ASKED = {
    "employer": "Who does {s} work for?",
    "city": "In which city is the seat of {s}?",
    "mayor": "Who is the mayor of {s}?",
}
NEXT = {"employer": "city", "city": "mayor"}
FACTS_A_SESSION = 10


def conflicts(facts: int, questions: int, seed: int = 1) -> tuple[list[Session], Sequence[Said]]:
    """Sessions that tell `facts` numbered facts about few subjects, where the newest of those that
    contradict each other holds; and questions about one of them, or two in a chain."""
    rng = random.Random(seed)
    people, firms, cities = (
        [f"{rng.choice(_STARTS).title()}{rng.choice(_ENDS)}{kind}{n}" for n in range(facts // 16)]
        for kind in "pfc"
    )
    subjects = {"employer": (people, firms), "city": (firms, cities), "mayor": (cities, people)}
    truth = Truth()
    told: list[Said] = []
    for serial in range(1, facts + 1):
        about = rng.choice(list(subjects))
        subject, value = (rng.choice(names) for names in subjects[about])
        text = f"serial-{serial}: {RELATIONS[about].format(s=subject, v=value)}"
        fact = Fact(key=(subject, about), value=f"serial-{serial}", text=text)
        told.append(Said(kind="told", text=text, fact=fact, noticed=False))
        truth.hear(told[-1])
    asked: list[Said] = []
    known = list(truth.standing)
    while len(asked) < questions:
        subject, about = rng.choice(known)
        chain = len(asked) % 2 == 1
        then = (target_of(truth.standing[subject, about]), NEXT.get(about, ""))
        if chain and then not in truth.standing:
            continue
        keys = ((subject, about), ("", then[1])) if chain else ((subject, about),)
        text = ASKED[about].format(s=subject)
        asked.append(Said(kind="asked", text=text, question=Question(asks=keys, hops=chain)))
    sessions = []
    for number, first in enumerate(range(0, facts, FACTS_A_SESSION)):
        turns = tuple(told[first : first + FACTS_A_SESSION])
        sessions.append(Session(number=number, at=FIRST_DAY + timedelta(hours=number), turns=turns))
    return sessions, asked


def target_of(fact: Fact) -> str:
    """What a fact with a serial number says of its subject."""
    return fact.text.rsplit(" ", 1)[-1]
