"""What a search promises, whichever memory system is asked, and by whom: a person's command, the
model's tool, or the recall that travels with a message. Nothing here knows how a system ranks.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kode.memory import policy, search as searching
from kode.memory.commands import memory_command
from kode.memory.contract import Turn
from kode.memory.statement import Author, timestamp
from tests.memory.sessions import Sessions, call

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
NO_MATCH = ("No matching", "No note matches", "No entry")
OFFERED = ("deploys from main", "the tokenizer was rewritten", "invoices are sent weekly")


async def opened(name, root, *, session="s1", reply=None, at=NOW, **config):
    config["merge_on_write"] = False
    home = Sessions(root, system=name, settings=config, reply=reply, now=at)
    memory = await home.open(session)
    memory.home = home
    return memory


async def keep(name, root, *texts, at=NOW):
    """The notes on sessions that ended at a time."""
    memory = await opened(name, root, session=None, at=at)
    store = memory.store
    for number, text in enumerate(texts):
        id = f"{at:%Y%m%d}-{len(store.log.changes()):06}-abcdef"
        note = memory.policy.note(memory.home.record(id, text), text, ())
        claimed_at = timestamp(at + timedelta(milliseconds=number))
        note = replace(note, claimed_at=claimed_at, session=id)
        draft = store.draft("note", Author("session", id))
        await store.commit(lambda view, draft=draft, note=note: replace(draft, add=(note,)))
    await memory.close(1.0)


async def by_person(system, query):
    return await memory_command(system, ["search", query])


async def by_model(system, query):
    names = {tool.name for tool in system.tools()} & {"memory", "history_search", "recall"}
    given = {"action": "search"} if "memory" in names else {}
    return await call(system, names.pop(), query=query, **given)


async def by_recall(system, query):
    """What travels with a message that is not the first."""
    return await system.recall(Turn(number=2, text=query))


WAYS = {
    "tiered": (by_person, by_model, by_recall),
    "notes": (by_person, by_model, by_recall),
    "vault": (by_person,),
    "journal": (by_person, by_model),
    "plain": (by_person, by_recall),
}
"""The model reads a vault file by file and has a journal in its prompt: neither is searched so. A
system adds its line here."""

systems = pytest.mark.parametrize("name", WAYS)
ways = pytest.mark.parametrize(
    ("name", "search"), [(name, way) for name, row in WAYS.items() for way in row]
)

KNOWN = ["PostgreSQL", "GitHub", "TypeScript", "FastAPI", "NumPy", "GraphQL", "LaTeX", "macOS"]


@ways
async def test_a_product_is_found_however_it_is_written(name, search, tmp_path):
    await keep(name, tmp_path, *(f"Prefers {product} here" for product in KNOWN))
    for spell in (str.lower, str.upper, str):
        system = await opened(name, tmp_path, llm_search=False)
        for product in KNOWN:
            assert f"Prefers {product} here" in await search(system, spell(product))
        await system.close(1.0)


@ways
async def test_an_unrelated_query_finds_nothing(name, search, tmp_path):
    await keep(name, tmp_path, *OFFERED)
    system = await opened(name, tmp_path, llm_search=False)
    if search is by_recall:
        await system.recall(Turn(number=1, text="hello"))  # the newest come with it, unasked
    for query in ("quantum chromodynamics", "bake a cake with cherries", "how are you?"):
        found = await search(system, query)

        assert not any(text in found for text in OFFERED), query
        assert search is by_recall or found.startswith(NO_MATCH)


@ways
async def test_a_question_of_time_finds_by_time(name, search, tmp_path):
    questions = {
        "what did we do yesterday?": "yesterday's work",
        "what did we do last time?": "yesterday's work",
        "what was done on 2026-01-03?": "work of January",
        "continue where we stopped yesterday": "yesterday's work",
    }
    days = {
        "work of January": datetime(2026, 1, 3, 9, tzinfo=UTC),
        "work of that week": datetime(2026, 2, 25, 9, tzinfo=UTC),
        "yesterday's work": datetime(2026, 3, 3, 9, tzinfo=UTC),
    }
    for text, at in days.items():
        await keep(name, tmp_path, text, at=at)
    for query, expected in questions.items():
        system = await opened(name, tmp_path, llm_search=False)
        found = await search(system, query)
        await system.close(1.0)

        assert expected in found, query
        assert min(days, key=lambda text: found.find(text) % (len(found) + 1)) == expected


@systems
async def test_the_shell_asks_no_model_when_the_words_suffice(name, tmp_path):
    await keep(name, tmp_path, *OFFERED)
    system = await opened(name, tmp_path, reply=lambda prompt: "none", session=None)

    assert OFFERED[1] in await by_person(system, "Tokenizer rewritten")
    assert system.home.prompts == []


@systems
async def test_an_index_stays_when_another_project_is_searched(name, tmp_path, monkeypatch):
    for module in (searching, policy):
        monkeypatch.setattr(module, "MAX_IN_MEMORY", 0)
    memories = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        home = Sessions(tmp_path, system=name, project=tmp_path / folder, now=NOW)
        await home.run(folder, f"The tokenizer of {folder} was rewritten")
        memories.append(await home.open())

    files = {}
    for memory in (*memories, memories[0]):
        await memory.fill_index()
        assert memory.update_indexes(60.0) == 0
        for path in memory.store.root.glob("index-*.sqlite"):
            assert files.setdefault(path, path.read_bytes()) == path.read_bytes()
