"""What a search promises, whichever memory system is asked, and by whom: a person's command, the
model's tool, or the recall that travels with a message. Nothing here knows how a system ranks.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kode.config import MemoryConfig
from kode.contracts import MemoryContext, Turn
from kode.errors import ProviderError
from kode.events import silent
from kode.memory import make_system
from kode.memory.commands import memory_command
from kode.memory.journal.files import block_of
from kode.memory.tiered.episode_files import Episode, EpisodeFiles
from tests.effort import share
from tests.memory.life import Model, in_messages, use_tool

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
SESSION = "20260304-120000-abcdef"
NO_MATCH = ("No matching", "No note matches", "No entry")
OFFERED = ("deploys from main", "the tokenizer was rewritten", "invoices are sent weekly")


async def opened(name, root, *, model=None, session=SESSION, at=NOW, **config):
    system = make_system(MemoryConfig(system=name, merge_on_write=False, **config))
    context = MemoryContext(
        root=root / "memory",
        cwd=root,
        project_root=None,
        session_id=session,
        emit=silent,
        ask_reply=in_messages(model),
        now=lambda: at,
    )
    await system.open(context, {})
    return system


async def keep(name, root, *texts, at=NOW):
    """What was kept at a time, in the place where a system keeps what was done. A system adds its
    line here."""
    system = await opened(name, root, session=None, at=at)
    for number, text in enumerate(texts):
        match name:
            case "tiered":
                files = EpisodeFiles(root / "memory" / "episodes")
                when = at.isoformat()
                id = f"{at:%Y%m%d}-{len(files.session_ids()):06}-abcdef"
                one = {"session_id": id, "turns": 3, "narrative": text}
                files.write(Episode(**one, created_at=when, updated_at=when))
            case "vault":
                tools = {tool.name: tool for tool in system.tools()}
                path = f"episodes/{at:%Y-%m}.md"
                await use_tool(tools["memory_append"], path=path, entry=f"- {text}")
            case "journal":
                written = at + timedelta(milliseconds=number)
                system.files.append_block(block_of(text, written), written)
            case "notes":
                await system.writer.remember(text)
    await system.close(1.0)


async def by_person(system, query):
    return await memory_command(system, ["search", query])


async def by_model(system, query):
    (tool,) = [
        tool for tool in system.tools() if tool.name in ("memory", "history_search", "recall")
    ]
    given = {"action": "search"} if tool.name == "memory" else {}
    return await use_tool(tool, query=query, **given)


async def by_recall(system, query):
    """What travels with a message that is not the first."""
    return await system.recall(Turn(number=2, text=query))


SEARCHED_BY = {
    "tiered": (by_person, by_model, by_recall),
    "notes": (by_person, by_model, by_recall),
    "vault": (by_person,),
    "journal": (by_person, by_model),
}
"""The model reads a vault file by file and has a journal in its prompt: neither is searched so. A
system adds its line here."""

systems = pytest.mark.parametrize("name", SEARCHED_BY)
ways = pytest.mark.parametrize(
    ("name", "search"), [(name, way) for name, row in SEARCHED_BY.items() for way in row]
)
asked = pytest.mark.parametrize(
    ("name", "search"),
    [(name, way) for name, row in SEARCHED_BY.items() for way in row if way is not by_recall],
)


# ── a word finds itself ──────────────────────────────────────────────────────────────────────

STYLES = {
    "camel": lambda parts: parts[0] + "".join(map(str.capitalize, parts[1:])),
    "Pascal": lambda parts: "".join(map(str.capitalize, parts)),
    "snake": "_".join,
    "SCREAMING": lambda parts: "_".join(parts).upper(),
    "kebab": "-".join,
    "flat": "".join,
    "spaced": " ".join,
}
_part = st.from_regex(r"[bcdfgkmpt][aeiou][bdgklmnprstvz]{1,3}[aeiou]?", fullmatch=True)
_names = st.lists(st.lists(_part, min_size=2, max_size=3), min_size=3, max_size=3)


@ways
@given(names=_names, data=st.data())
@settings(max_examples=share(8), deadline=None, suppress_health_check=list(HealthCheck))
async def test_a_word_in_lower_case_or_joined_finds_its_fact(name, search, names, data):
    style = st.sampled_from(sorted(STYLES))
    written = [STYLES[data.draw(style)](parts) for parts in names]
    facts = [f"Setting {word} has the value of box {n}." for n, word in enumerate(written)]
    with tempfile.TemporaryDirectory() as folder:
        await keep(name, Path(folder), *facts)
        system = await opened(name, Path(folder), llm_search=False)
        for parts, fact in zip(names, facts, strict=True):
            for query in (STYLES[data.draw(style)](parts), "".join(parts)):
                if search is by_recall:  # which shows nothing twice in a session
                    system = await opened(name, Path(folder), llm_search=False)
                assert fact in await search(system, query), (query, fact)
        await system.close(1.0)


KNOWN = ["PostgreSQL", "GitHub", "TypeScript", "FastAPI", "NumPy", "GraphQL", "LaTeX", "macOS"]


@ways
async def test_a_product_is_found_however_it_is_written(name, search, tmp_path):
    await keep(name, tmp_path, *(f"Prefers {product} here" for product in KNOWN))
    for product in KNOWN:
        for query in (product.lower(), product.upper(), product):
            system = await opened(name, tmp_path, llm_search=False)
            assert f"Prefers {product} here" in await search(system, query)
            await system.close(1.0)


@ways
@pytest.mark.parametrize("query", ["tokenzier", "tokeniser", "tokenizr", "tokenizzer"])
async def test_a_typo_in_a_rare_word_finds_it(name, search, query, tmp_path):
    await keep(name, tmp_path, *OFFERED)
    system = await opened(name, tmp_path, llm_search=False)

    assert OFFERED[1] in await search(system, query)


@ways
@pytest.mark.parametrize(
    "query", ["quantum chromodynamics", "bake a cake with cherries", "how are you?"]
)
async def test_an_unrelated_query_finds_nothing(name, search, query, tmp_path):
    await keep(name, tmp_path, *OFFERED)
    system = await opened(name, tmp_path, llm_search=False)
    if search is by_recall and name == "notes":
        await system.recall(Turn(number=1, text="hello"))  # the newest come with it, unasked

    found = await search(system, query)

    assert not any(text in found for text in OFFERED)
    assert search is by_recall or found.startswith(NO_MATCH)


# ── time ─────────────────────────────────────────────────────────────────────────────────────


@ways
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what did we do yesterday?", {"yesterday's work"}),
        ("what was done on 2026-01-03?", {"work of January"}),
        ("what did we do last week?", {"work of that week"}),
        ("continue where we stopped yesterday", {"yesterday's work"}),
    ],
)
async def test_a_question_of_time_finds_by_time(name, search, query, expected, tmp_path):
    days = {
        "work of January": datetime(2026, 1, 3, 9, tzinfo=UTC),
        "work of that week": datetime(2026, 2, 25, 9, tzinfo=UTC),
        "yesterday's work": datetime(2026, 3, 3, 9, tzinfo=UTC),
    }
    for text, at in days.items():
        await keep(name, tmp_path, text, at=at)
    system = await opened(name, tmp_path, llm_search=False)
    if search is by_recall and name == "notes":
        system._first_pack = False  # without the newest, which come unasked

    found = await search(system, query)

    assert {text for text in days if text in found} >= expected
    first = min(days, key=lambda text: found.find(text) % (len(found) + 1))
    assert {first} == expected


@ways
async def test_last_time_finds_the_newest(name, search, tmp_path):
    await keep(name, tmp_path, "an old thing", at=NOW - timedelta(days=40))
    await keep(name, tmp_path, "the newest thing", at=NOW - timedelta(days=1))
    system = await opened(name, tmp_path, llm_search=False)

    found = await search(system, "what did we do last time?")

    assert "the newest thing" in found
    assert "an old thing" not in found or found.index("newest") < found.index("an old")


# ── where words find too little ──────────────────────────────────────────────────────────────


def choosing(text):
    """A model that answers with the number of the candidate that holds `text`."""

    async def ask(system, prompt, max_output_tokens):
        (line,) = [line for line in prompt.split("\n") if text in line]
        return line.partition(":")[0]

    return ask


@asked
async def test_the_model_finds_what_no_word_of_the_query_says(name, search, tmp_path):
    await keep(name, tmp_path, *OFFERED)
    system = await opened(name, tmp_path, model=choosing("tokenizer"))

    found = await search(system, "lexical scanner")

    assert OFFERED[1] in found
    assert OFFERED[0] not in found


@asked
@pytest.mark.parametrize("answer", ["none", "None."])
async def test_none_of_the_model_means_none(name, search, answer, tmp_path):
    await keep(name, tmp_path, *OFFERED)
    system = await opened(name, tmp_path, model=Model([answer]))

    found = await search(system, "lexical scanner")

    assert not any(text in found for text in OFFERED)


@asked
@pytest.mark.parametrize("answer", ["no idea", "99", ProviderError("down")])
async def test_a_failing_model_leaves_the_word_order_or_the_newest(name, search, answer, tmp_path):
    await keep(name, tmp_path, OFFERED[1], at=NOW - timedelta(days=2))
    await keep(name, tmp_path, OFFERED[0], at=NOW - timedelta(days=1))
    system = await opened(name, tmp_path, model=Model([answer]))

    by_words = await search(system, "tokenizer scanner")
    newest = await search(system, "lexical scanner")

    assert OFFERED[1] in by_words
    assert OFFERED[0] not in by_words
    assert newest.startswith("No ") or "No " in newest.partition("\n\n")[0]
    assert newest.index(OFFERED[0]) < newest.index(OFFERED[1])


@asked
async def test_no_model_is_asked_when_llm_search_is_off(name, search, tmp_path):
    await keep(name, tmp_path, *OFFERED)
    model = Model(["0"])
    system = await opened(name, tmp_path, model=model, llm_search=False)

    await search(system, "lexical scanner")

    assert model.asked == []


@systems
async def test_the_shell_asks_no_model_when_the_words_suffice(name, tmp_path):
    await keep(name, tmp_path, *OFFERED)
    model = Model(["none"])
    system = await opened(name, tmp_path, model=model, session=None)

    assert OFFERED[1] in await by_person(system, "Tokenizer rewritten")
    assert model.asked == []
