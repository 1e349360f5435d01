"""Of statements that contradict each other: which counts, what waits, and how it is undone."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from kode.events import MemoryChanged
from kode.memory import review
from kode.memory.change import Author
from kode.memory.commands import memory_command
from kode.memory.lineage import Entry
from kode.memory.precedence import Rank, rank, source_rank
from kode.memory.tiered.facts import DISPUTED, parse
from kode.memory.waiting import propose
from tests.effort import share
from tests.memory.life import Model, lived, notices, opened, settings, turn, use, user_file
from tests.memory.life import write_facts as write
from tests.tables import for_each

OLD, NEW = "the port is 80", "the port is 81"
FILE = "facts/user.md"


def facts(root):
    return parse(user_file(root).read_text())


def pairs(system):
    return [(p.first.text, p.second.text, p.contradict) for p in review.pairs(system)]


async def hear(system, text, number=1):
    await system.recall(turn(number, text))


async def keep(system, text, **more):
    return await use(system, action="add", target="user", content=text, **more)


@for_each(
    ("author", "rank"),
    [
        (Author(who="user"), Rank.SAID),
        (Author(who="user", source="Codex, which proposed it"), Rank.FOUND),
        (Author(who="model", words="take port 81 from now on"), Rank.SAID),
        (Author(who="model", words="which port does it use?"), Rank.FOUND),
        (Author(who="model", words=""), Rank.FOUND),
        (Author(who="model", words="look it up", source="a.py:1", source_hash="0"), Rank.READ),
        (Author(who="import", source="CLAUDE.md"), Rank.FOUND),
        (Author(who="extraction", words="take port 81"), Rank.SAID),
        (Author(who="extraction", words="which port?"), Rank.FOUND),
        (Author(who="consolidation"), Rank.FOUND),
        (Author(who="client"), Rank.OUTSIDE),
    ],
)
def test_a_rank_follows_from_what_is_recorded_of_the_source(author, rank):
    assert source_rank(author, NEW, OLD) == rank


async def test_the_persons_later_statement_counts_at_once_and_is_announced(tmp_path):
    system = await opened(tmp_path, model=Model(["update"]))
    await memory_command(system, ["add", "user", OLD])
    await hear(system, "use port 81 from now on")
    events = []

    await use(system, events.append, action="add", target="user", content=NEW)

    assert facts(tmp_path) == (NEW,)
    (changed,) = [event for event in events if isinstance(event, MemoryChanged)]
    assert changed.text == f'superseded in user "{OLD}" by "{NEW}"'


async def test_a_superseded_fact_names_its_successor_wherever_it_is_shown(tmp_path):
    system = await opened(tmp_path, model=Model(["update"]))
    await memory_command(system, ["add", "user", OLD])
    await memory_command(system, ["add", "user", NEW])
    day = system.history.tail(1).changes[0].at[:10]

    assert f'superseded by "{NEW}": supersede ' in await memory_command(system, ["why", OLD])
    why_new = await memory_command(system, ["why", NEW])
    assert f'in place of:\n    "{OLD}"' in why_new
    assert f"{OLD}; {NEW} → {NEW}" in await memory_command(system, ["log"])
    listed = await memory_command(system, ["review"])
    assert listed.startswith("Nothing is pending.\n\nsuperseded lately:\n")
    assert f'"{OLD}"  ·  {FILE}\n    superseded by "{NEW}": supersede ' in listed
    # A day of which both are part: the older had gone by its end.
    assert "superseded by" not in await memory_command(system, ["show", "--as-of", day])
    changes = system.history.path.read_text().splitlines(keepends=True)
    system.history.path.write_text(changes[0].replace(day, "2026-01-05") + changes[1])
    told = await memory_command(system, ["show", "--as-of", "2026-01-06"])
    assert told.startswith(f'[{FILE}] "{OLD}"\n    (superseded by "{NEW}": supersede ')


async def test_a_lower_ranked_fact_waits_instead_of_winning(tmp_path):
    system = await opened(tmp_path, model=Model(["update"]))
    await memory_command(system, ["add", "user", OLD])
    await hear(system, "look up which port it uses")

    await keep(system, NEW)

    assert facts(tmp_path) == (OLD, NEW)
    assert pairs(system) == [(OLD, NEW, True)]
    shown = (await system.inject("start")).system
    assert f"\n{OLD}" in shown
    assert f"\n{DISPUTED}{NEW}" in shown


async def test_code_that_was_read_ranks_between(tmp_path):
    (tmp_path / "app.py").write_text("port = 81")
    system = await opened(tmp_path, model=Model(["update"]))
    await hear(system, "look it up")
    await keep(system, OLD)

    await keep(system, NEW, source="app.py:1")
    assert facts(tmp_path) == (NEW,)
    await keep(system, "the port is 82")

    assert facts(tmp_path) == (NEW, "the port is 82")
    assert pairs(system)[-1] == (NEW, "the port is 82", True)


async def test_a_fact_with_changed_sources_yields_to_later_findings(tmp_path):
    (tmp_path / "app.py").write_text("port = 80")
    system = await opened(tmp_path, model=Model(["update"]))
    await hear(system, "look it up")
    await keep(system, OLD, source="app.py:1")
    (tmp_path / "app.py").write_text("port = 81")

    await keep(system, NEW)

    assert facts(tmp_path) == (NEW,)


def rank_of(system, text, project):
    entry = Entry(target=FILE, key=text, text=text)
    return rank(system.ledger.statement(entry), project)


@pytest.mark.parametrize("client", ["Codex", "kode, from your own words"])
async def test_an_approved_proposal_ranks_as_found_whatever_its_name(tmp_path, client):
    system = await opened(tmp_path)
    change = await propose(system.history, OLD, "user", client=client, project=tmp_path)

    await memory_command(system, ["approve", change.target.rpartition("/")[2]])

    assert rank_of(system, OLD, tmp_path) == Rank.FOUND


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_models_replacement_wins_no_more_than_an_addition(tmp_path, by_hand):
    system = await opened(tmp_path)
    if by_hand:
        write(user_file(tmp_path), OLD)
    else:
        await memory_command(system, ["add", "user", OLD])
    await hear(system, "tidy up")

    await use(system, action="replace", target="user", old_text="port", content=NEW)
    assert facts(tmp_path) == (OLD, NEW)
    assert pairs(system) == [(OLD, NEW, True)]

    await hear(system, "it is 82", 2)
    await use(system, action="replace", target="user", old_text=OLD, content="the port is 82")
    assert facts(tmp_path) == ("the port is 82", NEW)


async def test_one_undo_restores_both_facts_as_a_waiting_pair(tmp_path):
    system = await opened(tmp_path, model=Model(["update"]))
    await memory_command(system, ["add", "user", OLD])
    await memory_command(system, ["add", "user", NEW])

    await memory_command(system, ["undo"])

    assert facts(tmp_path) == (OLD, NEW)
    assert pairs(system) == [(OLD, NEW, True)]


async def test_ending_a_session_applies_the_same_rule_asking_once(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", OLD])
    await hear(system, "look it up")
    await keep(system, NEW)
    events, model = [], Model([answer(2)])
    ending = await opened(tmp_path, model=model, emit=events.append)

    await ending.before_drop(lived("look around"), "exit")
    assert facts(tmp_path) == (OLD, NEW)
    assert "kode memory review" in notices(events)[0]
    await ending.before_drop(lived("look around"), "exit")

    assert len(model.asked) == 1
    assert pairs(ending) == [(OLD, NEW, True)]


async def test_a_pair_of_a_superseded_entry_moves_to_its_successor(tmp_path):
    system = await opened(tmp_path, model=Model(["update"]))
    await memory_command(system, ["add", "user", OLD])
    await hear(system, "look it up")
    await keep(system, NEW)

    await memory_command(system, ["replace", "user", OLD, "the port is 82"])

    assert (NEW, "the port is 82", False) in pairs(system)


STATEMENTS = st.lists(st.sampled_from(["typed", "said", "read", "found"]), min_size=1, max_size=6)
RANKS = {"typed": Rank.SAID, "said": Rank.SAID, "read": Rank.READ, "found": Rank.FOUND}


def answer(known):
    """A judge's answer that each of so many known lines changes each older one."""
    lines = [
        {"line": line, "how": "changes", "of": of}
        for line in range(2, known + 1)
        for of in range(1, line)
    ]
    return json.dumps({"narrative": "Looked around.", "facts": [], "lines": lines})


class Nearest:
    """Finds that any two texts contradict each other, of several the one that `choose` says."""

    def __init__(self, choose):
        self.choose = choose

    async def __call__(self, system, prompt, max_output_tokens):
        if prompt.startswith("The known facts:"):
            return answer(sum(line[:1].isdigit() for line in prompt.split("\n")))
        several = "Stored fact 2" in prompt
        return f"update-{self.choose}" if several else "update"


@examples(max_examples=share(25))
@given(STATEMENTS, st.sampled_from([1, 2]))
def test_the_highest_rank_counts_and_then_the_newest(sources, choose):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_check(Path(folder), sources, choose))


async def _check(root, sources, choose):
    (root / "app.py").write_text("port = 1")
    system = await opened(
        root, model=Nearest(choose), config=settings(facts_limit_user=9_000, add_threshold=0.01)
    )
    said = [
        (source, f"the staging server listens on port {n + 80}") for n, source in enumerate(sources)
    ]
    for number, (source, text) in enumerate(said, 1):
        await hear(system, text if source == "said" else "look it up", number)
        if source == "typed":
            await memory_command(system, ["add", "user", text])
        else:
            await keep(system, text, source="app.py:1" if source == "read" else None)
    for _ in said:  # what was handed over is settled when a session ends, and may hand over again
        await system.before_drop(lived("look around"), "exit")

    best = max(RANKS[source] for source in sources)
    counts = [text for source, text in said if RANKS[source] == best][-1]
    standing = facts(root)
    undisputed = [text for text in standing if text not in _newer_of_pairs(system, standing)]
    assert undisputed == [counts]
    ranks = {text: rank_of(system, text, root) for text in standing}
    assert all(ranks[text] < best for text in standing if text != counts)

    for change in list(system.history.standing("tiered")):
        if change.kind == "supersede":
            before = facts(root)
            if set(change.after) <= set(before):
                await memory_command(system, ["undo", change.id])
                assert set(facts(root)) == {*before, *change.before}
                await memory_command(system, ["undo", system.history.tail(1).changes[0].id])
                assert facts(root) == before


def _newer_of_pairs(system, standing):
    return [new for old, new, disputed in pairs(system) if disputed and old in standing]
