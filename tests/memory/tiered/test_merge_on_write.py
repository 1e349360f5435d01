import asyncio

import pytest

from kode.errors import ProviderError, ToolError
from kode.events import MemoryChanged
from kode.memory.tiered import merge
from kode.memory.tiered.facts import parse
from tests.memory.life import Model, env_file, opened, settings, use, user_file, write_facts


@pytest.fixture
def undecided(monkeypatch):
    """Everything is left to the judge."""

    def decide(new, entries, **_):
        return merge.Decision("judge", len(entries) - 1, 0.5, new, "near")

    monkeypatch.setattr(merge, "decide", decide)


@pytest.fixture
def containing(monkeypatch):
    """Everything merges with the last entry."""

    def decide(new, entries, **_):
        return merge.Decision("merge", len(entries) - 1, 0.9, new, "one contains the other")

    monkeypatch.setattr(merge, "decide", decide)


async def test_a_merge_leaves_one_entry_and_tells_what_it_replaces(tmp_path, containing):
    model, events = Model(), []
    system = await opened(tmp_path, model=model, emit=events.append)
    await use(system, action="add", target="env", content="uses pytest")

    told = await use(system, events.append, action="add", target="env", content="uses pytest -q")

    assert env_file(tmp_path).read_text() == "uses pytest -q"
    assert 'replaces "uses pytest"' in told
    assert model.asked == []
    changes = [event for event in events if isinstance(event, MemoryChanged)]
    assert changes[-1].text == 'merged into env "uses pytest -q"'
    assert changes[-1].change_id


async def test_distinct_facts_are_added_without_a_question(tmp_path):
    model = Model(["merge"])
    system = await opened(tmp_path, model=model)
    await use(system, action="add", target="env", content="API on port 8080")

    await use(system, action="add", target="env", content="Redis on port 6379")

    assert parse(env_file(tmp_path).read_text()) == ("API on port 8080", "Redis on port 6379")


@pytest.mark.parametrize(
    ("answer", "entries"),
    [
        ("same", ("the new one",)),
        (" Update. ", ("the new one",)),
        ("distinct", ("the old one", "the new one")),
        ("do not merge", ("the old one", "the new one")),
        ("I would merge them", ("the old one", "the new one")),
        ("", ("the old one", "the new one")),
        (ProviderError("down"), ("the old one", "the new one")),
        (RuntimeError("bug"), ("the old one", "the new one")),
    ],
)
async def test_the_judge_is_asked_once_and_anything_but_its_words_adds(
    tmp_path, undecided, answer, entries
):
    write_facts(user_file(tmp_path), "the old one")
    model = Model([answer])
    system = await opened(tmp_path, model=model)

    await use(system, action="add", target="user", content="the new one")

    assert parse(user_file(tmp_path).read_text()) == entries
    assert len(model.asked) == 1


async def test_a_judge_that_does_not_answer_in_time_adds(tmp_path, undecided, monkeypatch):
    monkeypatch.setattr("kode.memory.tiered.write.JUDGE_TIMEOUT_S", 0.01)
    write_facts(user_file(tmp_path), "the old one")

    async def sleepy(system, prompt, max_output_tokens):
        await asyncio.sleep(60)
        return "same"

    system = await opened(tmp_path, model=sleepy)

    await use(system, action="add", target="user", content="the new one")

    assert parse(user_file(tmp_path).read_text()) == ("the old one", "the new one")


async def test_without_a_model_what_needs_judgment_is_added(tmp_path, undecided):
    write_facts(user_file(tmp_path), "the old one")
    system = await opened(tmp_path)

    await use(system, action="add", target="user", content="the new one")

    assert parse(user_file(tmp_path).read_text()) == ("the old one", "the new one")


async def test_merging_can_be_turned_off(tmp_path, monkeypatch):
    def decide(*_, **__):
        raise AssertionError("classified")

    monkeypatch.setattr(merge, "decide", decide)
    system = await opened(tmp_path, config=settings(merge_on_write=False))
    await use(system, action="add", target="env", content="uses pytest")

    await use(system, action="add", target="env", content="uses pytest -q")

    assert parse(env_file(tmp_path).read_text()) == ("uses pytest", "uses pytest -q")


async def test_the_thresholds_of_the_config_reach_the_decision(tmp_path, monkeypatch):
    seen = {}

    def decide(new, entries, **options):
        seen.update(options)
        return merge.Decision("add", None, 0.0, new, "")

    monkeypatch.setattr(merge, "decide", decide)
    write_facts(env_file(tmp_path), "one")
    config = settings(merge_threshold=0.9, add_threshold=0.1)
    system = await opened(tmp_path, config=config)

    await use(system, action="add", target="env", content="two")

    assert (seen["merge_threshold"], seen["add_threshold"]) == (0.9, 0.1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Indent: 4 spaces", "Indent: 2 spaces"),
        ("prefers tabs over spaces", "prefers spaces over tabs"),
    ],
)
async def test_values_and_orders_that_differ_are_never_glued_together(tmp_path, old, new):
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content=old)

    await use(system, action="add", target="user", content=new)

    entries = parse(user_file(tmp_path).read_text())
    assert new in entries
    assert set(entries) <= {old, new}


async def test_a_merge_over_the_cap_tells_the_sizes_and_changes_nothing(tmp_path, containing):
    config = settings(facts_limit_env=12)
    system = await opened(tmp_path, config=config)
    await use(system, action="add", target="env", content="uses pytest")

    with pytest.raises(ToolError, match="14 characters, over its limit of 12"):
        await use(system, action="add", target="env", content="uses pytest -q")

    assert env_file(tmp_path).read_text() == "uses pytest"


async def test_a_file_that_changes_while_the_judge_thinks_is_decided_anew(tmp_path, undecided):
    write_facts(user_file(tmp_path), "the old one")

    async def edits(system, prompt, max_output_tokens):
        write_facts(user_file(tmp_path), "edited by hand")
        return "same"

    system = await opened(tmp_path, model=edits)

    await use(system, action="add", target="user", content="the new one")

    assert parse(user_file(tmp_path).read_text()) == ("edited by hand", "the new one")


async def test_no_lock_is_held_while_a_model_is_asked(tmp_path, undecided):
    write_facts(user_file(tmp_path), "the old one")
    other = await opened(tmp_path, config=settings(merge_on_write=False))

    async def meanwhile(system, prompt, max_output_tokens):
        await use(other, action="add", target="user", content="from another process")
        return "distinct"

    system = await opened(tmp_path, model=meanwhile)

    await use(system, action="add", target="user", content="the new one")

    entries = parse(user_file(tmp_path).read_text())
    assert entries == ("the old one", "from another process", "the new one")


async def test_only_the_entry_merged_with_changes(tmp_path):
    prefix = "In this project the deployment to staging "
    write_facts(env_file(tmp_path), prefix + "is manual", prefix + "uses Helm")
    system = await opened(tmp_path)

    await use(system, action="add", target="env", content=prefix + "uses Helm")

    entries = parse(env_file(tmp_path).read_text())
    assert entries == (prefix + "is manual", prefix + "uses Helm")
