from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.errors import ConfigError
from kode.permissions.rules import (
    KIND_OF,
    Rule,
    matches_argv,
    matches_path,
    matches_url,
    never_matches,
    parse,
    shell_rule,
)
from tests.tables import for_each

HOME = Path("/home/user")


def path_matches(rule: str, path: Path, project: Path, *, loosely: bool = False) -> bool:
    return matches_path(parse(rule), str(path), project=project, user_home=HOME, loosely=loosely)


@for_each("text", ["shell", "edit", "write_file", "memory", "delegate", "todo"])
def test_a_bare_name_is_a_rule(text):
    assert str(parse(text)) == text


@for_each("text", ["", "bash(ls)", "shell(", "shell()", "shell(*)", "todo(x)", "shell('a)", "rm:*"])
def test_an_invalid_rule_is_an_error_that_explains_rules(text):
    with pytest.raises(ConfigError) as error:
        parse(text)

    assert text.strip() in str(error.value) or repr(text) in str(error.value)


def test_an_unknown_name_is_told_what_is_allowed():
    with pytest.raises(ConfigError, match=r"shell\(WORDS\)"):
        parse("bash(git:*)")


@given(
    words=st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1),
    prefix=st.booleans(),
)
def test_a_shell_rule_survives_being_written_and_read(words, prefix):
    rule = shell_rule(words, prefix=prefix)
    if words == ["*"] or (not prefix and words[-1].endswith(":*")):
        return

    assert parse(str(rule)) == rule
    assert matches_argv(parse(str(rule)), words)


@given(
    name=st.sampled_from(["edit", "read", "write_file", "fetch"]),
    pattern=st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1),
)
def test_parsing_is_stable(name, pattern):
    rule = parse(f"{name}({pattern})")

    assert parse(str(rule)) == rule


@for_each(
    ("rule", "argv", "expected"),
    [
        ("shell(git push:*)", ["git", "push", "-f"], True),
        ("shell(git push:*)", ["git", "push"], True),
        ("shell(git push:*)", ["git", "pushx"], False),
        ("shell(git push:*)", ["git", "-C", "x", "push"], False),
        ("shell(git status)", ["git", "status"], True),
        ("shell(git status)", ["git", "status", "-s"], False),
        ("shell(ls:*)", ["/bin/ls", "-l"], True),
        ("shell(ls:*)", ["./ls"], False),
        ("shell(tools/ls)", ["/bin/tools/ls"], False),
        ("shell(echo 'a b':*)", ["echo", "a b", "c"], True),
        ("shell", ["anything"], True),
        ("edit", ["anything"], False),
    ],
)
def test_a_shell_rule_matches_words(rule, argv, expected):
    assert matches_argv(parse(rule), argv) is expected


@pytest.mark.parametrize(
    "argv", [["git", "-C", "x", "push"], ["/opt/x/git", "push"], ["git", "-c", "a=b", "push", "x"]]
)
def test_a_deny_rule_sees_through_options_and_folders(argv):
    assert matches_argv(parse("shell(git push:*)"), argv, loosely=True)


def test_globs_are_relative_to_the_project(tmp_path):
    assert path_matches("edit(src/**)", tmp_path / "src" / "a" / "b.py", tmp_path)
    assert not path_matches("edit(src/**)", tmp_path / "lib" / "b.py", tmp_path)
    assert not path_matches("edit(src/*)", tmp_path / "src" / "a" / "b.py", tmp_path)


def test_a_glob_without_a_slash_matches_at_any_depth(tmp_path):
    assert path_matches("edit(*.md)", tmp_path / "docs" / "a.md", tmp_path)
    assert not path_matches("edit(*.md)", tmp_path.parent / "a.md", tmp_path)


def test_a_path_beginning_with_a_dot_is_the_projects(tmp_path):
    assert path_matches("edit(./a.md)", tmp_path / "a.md", tmp_path)
    assert path_matches("edit(./*.md)", tmp_path / "a.md", tmp_path)
    assert not path_matches("edit(./a.md)", tmp_path / "docs" / "a.md", tmp_path)


def test_globs_may_be_absolute_or_begin_with_home(tmp_path):
    assert path_matches(f"read({tmp_path}/x/**)", tmp_path / "x" / "y", tmp_path)
    assert path_matches("read(~/notes/**)", HOME / "notes" / "a.md", tmp_path)


def test_links_fool_no_allow_rule_and_deny_rules_see_through(tmp_path):
    project, outside = tmp_path / "p", tmp_path / "o"
    for folder in (project / "src", outside):
        folder.mkdir(parents=True)
    (outside / "f").write_text("x")
    (project / "src" / "link").symlink_to(outside / "f")
    link = project / "src" / "link"

    assert not path_matches("edit(src/**)", link, project)
    assert path_matches("edit(src/**)", link, project, loosely=True)
    assert path_matches(f"edit({outside}/**)", link, project, loosely=True)


@for_each(
    ("rule", "url", "expected"),
    [
        ("fetch(docs.python.org)", "https://docs.python.org/3/", True),
        ("fetch(docs.python.org)", "https://DOCS.python.org:443/3/", True),
        ("fetch(docs.python.org)", "https://docs.python.org.evil.example/", False),
        ("fetch(docs.python.org)", "https://evil.example/docs.python.org", False),
        ("fetch(docs.python.org)", "https://docs.python.org@evil.example/", False),
        ("fetch(docs.python.org)", "ftp://docs.python.org/", False),
        ("fetch(docs.python.org)", "https://evil.example\\@docs.python.org/", False),
        ("fetch(*.python.org)", "https://docs.python.org/", True),
        ("fetch(*.python.org)", "https://evilpython.org/", False),
        ("fetch", "https://anywhere.example/", True),
    ],
)
def test_a_fetch_rule_matches_the_host_alone(rule, url, expected):
    assert matches_url(parse(rule), url) is expected


@for_each(
    ("rule", "hint"),
    [
        ("shell(ls | head)", "one by one"),
        ("shell(A=1 pytest:*)", "assignments"),
        ("shell(npm run *)", "shell(npm run:*)"),
        ("edit(src/)", "edit(src/**)"),
        ("fetch(https://docs.python.org/3)", "fetch(docs.python.org)"),
        ("fetch(docs.*.org)", "first"),
    ],
)
def test_a_rule_that_can_never_match_is_told_why(rule, hint):
    assert hint in (never_matches(parse(rule)) or "")


@pytest.mark.parametrize(
    "rule", ["shell", "shell(git push:*)", "edit(src/**)", "fetch(*.python.org)", "memory"]
)
def test_an_ordinary_rule_can_match(rule):
    assert never_matches(parse(rule)) is None


def test_every_name_has_a_kind():
    assert all(Rule(name).kind == kind for name, kind in KIND_OF.items())


def test_a_name_that_is_not_known_beforehand_matches_nothing():
    assert never_matches(parse("shell($CMD x:*)")) is not None
    assert never_matches(parse("shell(echo '$HOME')")) is None


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("apply_patch", "edit"),
        ("str_replace_based_edit_tool", "edit"),
        ("bash", "shell"),
    ],
)
def test_a_rule_may_use_the_tools_name_for_models(text, rule):
    assert str(parse(text)) == rule
