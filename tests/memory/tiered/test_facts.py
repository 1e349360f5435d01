import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.errors import MemoryRefused, ToolError
from kode.memory.tiered.facts import holds_separator, parse, render
from kode.paths import path_hash
from tests.memory.life import env_file, opened, settings, turn, use, user_file, write_facts

UNMERGED = settings(merge_on_write=False)


async def test_the_first_fact_makes_private_folders_and_its_file(tmp_path):
    system = await opened(tmp_path)

    await use(system, action="add", target="user", content="likes tabs")

    assert user_file(tmp_path).read_bytes() == b"likes tabs"
    assert stat.S_IMODE(user_file(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE(user_file(tmp_path).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "memory").stat().st_mode) == 0o700


async def test_content_without_an_action_is_added(tmp_path):
    system = await opened(tmp_path)

    await use(system, target="user", content="likes tabs")

    assert user_file(tmp_path).read_bytes() == b"likes tabs"


async def test_entries_are_separated_by_a_line_with_the_sign(tmp_path):
    system = await opened(tmp_path, config=UNMERGED)

    await use(system, action="add", target="user", content="likes tabs")
    await use(system, action="add", target="user", content="works late")

    assert user_file(tmp_path).read_bytes() == "likes tabs\n§\nworks late".encode()


async def test_a_fact_with_blanks_around_it_is_a_duplicate(tmp_path):
    system = await opened(tmp_path, config=UNMERGED)
    await use(system, action="add", target="user", content="likes tabs")

    told = await use(system, action="add", target="user", content="  likes tabs  ")

    assert "Already in" in told
    assert "Nothing was changed" in told
    assert user_file(tmp_path).read_text() == "likes tabs"


@pytest.mark.parametrize("target", ["foo", None])
async def test_a_target_that_is_none_names_the_allowed_ones(tmp_path, target):
    system = await opened(tmp_path)

    with pytest.raises(ToolError, match=r"user.* or .*env"):
        await use(system, action="add", target=target, content="x")

    assert not (tmp_path / "memory").exists()


async def test_a_write_over_the_cap_with_separators_tells_the_sizes(tmp_path):
    config = settings(merge_on_write=False, facts_limit_user=12)
    system = await opened(tmp_path, config=config)
    await use(system, action="add", target="user", content="1 345")
    await use(system, action="add", target="user", content="1 3")
    before = user_file(tmp_path).read_bytes()

    with pytest.raises(ToolError, match=r"17 characters.*limit of 12.*holds 11 now") as error:
        await use(system, action="add", target="user", content="1 4")

    assert all(f"`{way}`" in str(error.value) for way in ("archive", "consolidate", "remove"))
    assert user_file(tmp_path).read_bytes() == before


async def test_the_cap_counts_characters_not_bytes(tmp_path):
    config = settings(facts_limit_user=30)
    system = await opened(tmp_path, config=config)

    await use(system, action="add", target="user", content="é " + "é" * 14)

    assert len(user_file(tmp_path).read_bytes()) == 31


@pytest.mark.parametrize("content", ["a\n§\nb", "a\r\n § \r\nb", "§\nb"])
async def test_content_that_would_become_two_entries_is_refused(tmp_path, content):
    system = await opened(tmp_path)

    with pytest.raises(ToolError, match="separates entries"):
        await use(system, action="add", target="user", content=content)

    assert not user_file(tmp_path).exists()


async def test_a_fact_in_a_script_without_spaces_is_a_sentence(tmp_path):
    system = await opened(tmp_path)

    await use(system, action="add", target="user", content="用户喜欢制表符")

    assert user_file(tmp_path).read_text() == "用户喜欢制表符"


async def test_the_sign_inside_a_line_is_no_separator(tmp_path):
    system = await opened(tmp_path)

    await use(system, action="add", target="user", content="see § 12 of the contract")

    assert parse(user_file(tmp_path).read_text()) == ("see § 12 of the contract",)


async def test_replace_changes_only_the_entry_meant_and_keeps_the_order(tmp_path):
    write_facts(user_file(tmp_path), "one apple", "two pears", "three figs")
    system = await opened(tmp_path)
    await system.recall(turn(1, "two plums, not two pears"))

    await use(system, action="replace", target="user", old_text="pears", content="two plums")

    assert parse(user_file(tmp_path).read_text()) == ("one apple", "two plums", "three figs")


@pytest.mark.parametrize("action", ["replace", "remove"])
async def test_an_ambiguous_text_is_an_error_with_quotes_and_count(tmp_path, action):
    write_facts(user_file(tmp_path), "red apple", "green apple", "fig")
    system = await opened(tmp_path)

    with pytest.raises(ToolError, match=r'2 entries.*"red apple"; "green apple".*Quote more'):
        await use(system, action=action, target="user", old_text="apple", content="x")

    assert parse(user_file(tmp_path).read_text()) == ("red apple", "green apple", "fig")


async def test_nothing_can_be_removed_from_an_empty_target(tmp_path):
    system = await opened(tmp_path)

    with pytest.raises(ToolError, match=r"No entry of user contains .*\. It is empty\."):
        await use(system, action="remove", target="user", old_text="apple")


async def test_a_whole_entry_wins_over_a_part_of_another(tmp_path):
    write_facts(user_file(tmp_path), "likes tabs in Go", "likes tabs")
    system = await opened(tmp_path)

    await use(system, action="remove", target="user", old_text="likes tabs")

    assert parse(user_file(tmp_path).read_text()) == ("likes tabs in Go",)


async def test_a_replacement_over_the_cap_changes_nothing(tmp_path):
    write_facts(user_file(tmp_path), "short")
    system = await opened(tmp_path, config=settings(facts_limit_user=10))

    with pytest.raises(ToolError, match="limit of 10"):
        await use(system, action="replace", target="user", old_text="short", content="far too long")

    assert user_file(tmp_path).read_text() == "short"


@pytest.mark.parametrize("old_text", ["", "  ", None])
@pytest.mark.parametrize("action", ["replace", "remove"])
async def test_no_old_text_is_an_error(tmp_path, action, old_text):
    write_facts(user_file(tmp_path), "a")
    system = await opened(tmp_path)
    content = "b" if action == "replace" else None

    with pytest.raises(ToolError, match="old_text is empty"):
        await use(system, action=action, target="user", old_text=old_text, content=content)


async def test_a_replacement_equal_to_another_entry_leaves_it_once(tmp_path):
    write_facts(user_file(tmp_path), "a1", "b1", "c1")
    system = await opened(tmp_path)

    await use(system, action="replace", target="user", old_text="a1", content="c1")

    assert parse(user_file(tmp_path).read_text()) == ("c1", "b1")


@pytest.mark.parametrize(
    "data",
    [
        b"one\r\n\xc2\xa7\r\ntwo\r\n",
        b"\xef\xbb\xbfone\n\xc2\xa7\ntwo\n\n",
        b"\n\none  \n  \xc2\xa7 \n\n two",
        b"one\n\xc2\xa7\n\n\xc2\xa7\ntwo\n\xc2\xa7\n",
    ],
)
def test_a_hand_edited_file_has_the_same_entries(data):
    assert parse(data.decode()) == ("one", "two")


async def test_a_file_that_is_not_text_is_reported_untouched(tmp_path):
    data = b"caf\xe9 \xff\xfe"
    user_file(tmp_path).parent.mkdir(parents=True)
    user_file(tmp_path).write_bytes(data)
    write_facts(env_file(tmp_path), "uses Linux")
    events = []
    system = await opened(tmp_path, emit=events.append)

    injection = await system.inject("start")
    with pytest.raises(ToolError, match="not UTF-8"):
        await use(system, action="add", target="user", content="likes tabs")

    assert "uses Linux" in injection.system
    assert any("not UTF-8" in event.text for event in events)
    assert user_file(tmp_path).read_bytes() == data


async def test_a_persons_edit_made_meanwhile_is_kept(tmp_path):
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content="likes tabs")
    write_facts(user_file(tmp_path), "likes tabs", "added in an editor")

    await use(system, action="add", target="user", content="works at night")

    assert parse(user_file(tmp_path).read_text()) == (
        "likes tabs",
        "added in an editor",
        "works at night",
    )


async def test_inside_a_repository_env_facts_belong_to_the_project(tmp_path):
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    system = await opened(tmp_path, project_root=project, cwd=project)

    await use(system, action="add", target="env", content="tests run with make test")
    await use(system, action="add", target="env", content="Linux box", scope="global")
    await use(system, action="add", target="user", content="likes tabs")

    folder = tmp_path / "memory" / "project-facts" / path_hash(project)
    assert (folder / "env.md").read_text() == "tests run with make test"
    assert env_file(tmp_path).read_text() == "Linux box"
    assert user_file(tmp_path).read_text() == "likes tabs"
    here = (await system.inject("start")).system
    assert here.index("Linux box") < here.index("this project only") < here.index("make test")
    elsewhere = await opened(tmp_path, project_root=other, cwd=other)
    assert "make test" not in (await elsewhere.inject("start")).system


async def test_project_facts_apply_outside_a_repository_too(tmp_path):
    folder = tmp_path / "memory" / "project-facts" / path_hash(tmp_path)
    write_facts(folder / "env.md", "only here")

    system = await opened(tmp_path)

    assert "only here" in (await system.inject("start")).system


async def test_each_file_has_the_cap_for_itself(tmp_path):
    system = await opened(tmp_path, config=settings(facts_limit_env=12, merge_on_write=False))

    await use(system, action="add", target="env", content="01234 6789", scope="global")
    await use(system, action="add", target="env", content="98765 3210", scope="project")

    assert "83% (10/12 characters)" in await use(system, action="read")


def test_reading_a_name_that_is_no_fact_file_is_refused(tmp_path):
    from kode.memory.tiered.facts import FactStore

    store = FactStore(tmp_path, tmp_path, in_repository=False, limits={"user": 1, "env": 1})

    with pytest.raises(MemoryRefused):
        store.read_named("facts/../../secret.md")


@given(st.lists(st.text(min_size=1), max_size=6))
def test_rendered_entries_parse_to_the_same_entries(texts):
    entries = [text.strip() for text in texts]
    plain = [
        e for e in entries if e and not holds_separator(e) and "\r" not in e and e[0] != "\ufeff"
    ]

    assert parse(render(plain)) == tuple(plain)
