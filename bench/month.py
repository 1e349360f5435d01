"""A month of sessions with one user, made up and always the same: what is told, what changes, what
passes, what is private, and what is asked about later. Not here: living it (`bench.systems`).
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

DAYS = 30
WORK_TURNS = 3


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something that the user tells."""

    day: int
    about: Literal["user", "env"]
    text: str
    value: str
    """The part that an answer to `question` must hold."""
    question: str
    replaces: str = ""
    """The text that is no longer true from then on."""
    stale: str = ""
    """The part of the old text that must not be shown any more."""


FACTS = (
    Fact(day=1, about="user", text="The user indents Python with tabs",
         value="tabs", question="Write a Python function and indent it as I like it"),
    Fact(day=1, about="env", text="The staging database listens on port 5433",
         value="5433", question="Which port does the staging database listen on?"),
    Fact(day=2, about="user", text="The user wants answers in German, comments in English",
         value="German", question="In which language should you answer me?"),
    Fact(day=2, about="env", text="The billing service is written in Go 1.22",
         value="Go 1.22", question="Add a handler to the billing service"),
    Fact(day=3, about="env", text="Deploys happen on Thursdays after the stand-up",
         value="Thursdays", question="When do we deploy?"),
    Fact(day=4, about="env", text="Tests run with pytest -q -n 4",
         value="-n 4", question="Run the tests"),
    Fact(day=5, about="user", text="The user reviews pull requests on Mondays",
         value="Mondays", question="When will my pull request be reviewed?"),
    Fact(day=6, about="env", text="Feature flags live in config/flags.toml",
         value="flags.toml", question="Add a feature flag"),
    Fact(day=7, about="env", text="The nightly backup goes to the bucket kept-backups",
         value="kept-backups", question="Where does the nightly backup go?"),
    Fact(day=8, about="user", text="The user's editor is Helix",
         value="Helix", question="Which editor do I use?"),
    Fact(day=9, about="env", text="Migrations are made with alembic and named by ticket",
         value="alembic", question="Create a migration for the new column"),
    Fact(day=11, about="env", text="The staging database listens on port 5544",
         value="5544", question="Connect to the staging database on its port",
         replaces="The staging database listens on port 5433", stale="5433"),
    Fact(day=12, about="env", text="Logs are searched in Loki with the label app=ledger",
         value="app=ledger", question="Search the logs in Loki"),
    Fact(day=13, about="user", text="The user never wants emoji in commit messages",
         value="emoji", question="Write the commit message"),
    Fact(day=15, about="env", text="Deploys happen on Tuesdays after the stand-up",
         value="Tuesdays", question="When is the next deploy?",
         replaces="Deploys happen on Thursdays after the stand-up", stale="Thursdays"),
    Fact(day=16, about="env", text="Secrets are kept in Vault under team/ledger",
         value="team/ledger", question="Where are our secrets kept?"),
    Fact(day=18, about="env", text="The billing service is written in Go 1.24",
         value="Go 1.24", question="Which version of Go does the billing service use?",
         replaces="The billing service is written in Go 1.22", stale="Go 1.22"),
    Fact(day=20, about="user", text="The user is on leave in the first week of May",
         value="first week of May", question="When am I on leave?"),
)  # fmt: skip

PASSING = {5: "Staging is down for repairs today, ticket OPS-771", 19: "CI is slow today, OPS-802"}
"""True for one day; told as such."""
PASSING_MARKS = ("OPS-771", "OPS-802")
PRIVATE = {7: "My salary is 91k, a private matter", 21: "My PIN for the lab is 4711-A"}
"""Kept, if at all, so that it is never shown."""
PRIVATE_MARKS = ("91k", "4711-A")
TOKEN = "ghp_" + "q7W8e9R0t1Y2u3I4o5P6a7S8d9F0g1H2j3K4"
PASTED = {10: f"the clone fails, my token is {TOKEN}, what is wrong?"}
"""Said in passing, and never to be kept at all."""

_VERBS = ("fix", "extend", "rename", "document", "speed up", "test")
_THINGS = (
    "the invoice parser", "the retry loop", "the CSV export", "the login form", "the rate limiter",
    "the date picker", "the webhook queue", "the PDF renderer", "the cache", "the audit log",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Said:
    """One turn."""

    text: str
    kind: Literal["work", "fact", "passing", "private", "pasted", "probe"]
    fact: Fact | None = None
    answer: str = "Done."


@dataclass(frozen=True, kw_only=True)
class Session:
    day: int
    hour: int
    turns: tuple[Said, ...]


def month(days: int = DAYS) -> Iterator[Session]:
    """Mornings of work with what is told, and every third afternoon what is asked."""
    rng = random.Random(4)
    for day in range(1, days + 1):
        told = [Said(text=f"{fact.text}.", kind="fact", fact=fact) for fact in FACTS
                if fact.day == day]  # fmt: skip
        for kind, texts in (("passing", PASSING), ("private", PRIVATE), ("pasted", PASTED)):
            if day in texts:
                told.append(Said(text=texts[day], kind=kind))  # type: ignore[arg-type]
        yield Session(day=day, hour=9, turns=(*_work(rng), *told))
        if day % 3 == 0:
            asked = rng.sample(_known(day), k=min(4, len(_known(day))))
            probes = (Said(text=fact.question, kind="probe", fact=fact) for fact in asked)
            yield Session(day=day, hour=15, turns=(*probes, *_work(rng)))


def _work(rng: random.Random) -> list[Said]:
    turns = []
    for _ in range(WORK_TURNS):
        thing = rng.choice(_THINGS)
        text = f"{rng.choice(_VERBS)} {thing}"
        turns.append(Said(text=text, kind="work", answer=f"{thing} is done and the tests pass."))
    return turns


def _known(day: int) -> list[Fact]:
    """What was told before that day and still holds."""
    replaced = {fact.replaces for fact in FACTS if fact.day < day}
    return [fact for fact in FACTS if fact.day < day and fact.text not in replaced]


def gone(day: int) -> list[str]:
    """What must not be shown any more on that day: the marks of what changed or has passed."""
    marks = [fact.stale for fact in FACTS if fact.stale and fact.day < day]
    passed = [mark for mark, told in zip(PASSING_MARKS, PASSING, strict=True) if told + 1 < day]
    return marks + passed
