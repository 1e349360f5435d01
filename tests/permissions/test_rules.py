from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.errors import ConfigError
from kode.permissions.rules import (
    matches_argv,
    matches_path,
    matches_url,
    never_matches,
    parse,
    shell_rule,
)
from tests.tables import for_each
from tests.workplaces import workplace

HOME = Path("/home/user")


def path_matches(rule: str, path: Path, project: Path, *, loosely: bool = False) -> bool:
    place = replace(workplace(project), user_home=HOME)
    return matches_path(parse(rule), str(path), place, loosely=loosely)


@for_each(
    ("text", "rule"),
    [
        *((name, name) for name in ("shell", "edit", "write_file", "memory", "delegate", "todo")),
        ("apply_patch", "edit"),
        ("str_replace_based_edit_tool", "edit"),
        ("bash", "shell"),
        ("mcp__git__log", "mcp(git:log)"),
    ],
)
def test_a_bare_name_is_a_rule(text, rule):
    assert str(parse(text)) == rule


@for_each("text", ["", "bash(ls)", "shell(", "shell()", "shell(*)", "todo(x)", "shell('a)", "rm:*"])
def test_an_invalid_rule_is_an_error_that_explains_rules(text):
    with pytest.raises(ConfigError) as error:
        parse(text)

    assert repr(text) in str(error.value)


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


@for_each(
    "argv", [["git", "-C", "x", "push"], ["/opt/x/git", "push"], ["git", "-c", "a=b", "push", "x"]]
)
def test_a_deny_rule_sees_through_options_and_folders(argv):
    assert matches_argv(parse("shell(git push:*)"), argv, loosely=True)


@for_each(
    ("rule", "path", "expected"),
    [
        # Relative to the project; without a slash, at any depth in it
        ("edit(src/**)", "/p/src/a/b.py", True),
        ("edit(src/**)", "/p/lib/b.py", False),
        ("edit(src/*)", "/p/src/a/b.py", False),
        ("edit(*.md)", "/p/docs/a.md", True),
        ("edit(*.md)", "/a.md", False),
        ("edit(./a.md)", "/p/a.md", True),
        ("edit(./*.md)", "/p/a.md", True),
        ("edit(./a.md)", "/p/docs/a.md", False),
        # Absolute, or in the home
        ("read(/p/x/**)", "/p/x/y", True),
        ("read(~/notes/**)", "/home/user/notes/a.md", True),
    ],
)
def test_a_path_rule_is_a_glob(rule, path, expected):
    assert path_matches(rule, Path(path), Path("/p")) is expected


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
        ("shell($CMD x:*)", "name the program"),
        ("shell(npm run *)", "shell(npm run:*)"),
        ("edit(src/)", "edit(src/**)"),
        ("fetch(https://docs.python.org/3)", "fetch(docs.python.org)"),
        ("fetch(docs.*.org)", "first"),
    ],
)
def test_a_rule_that_can_never_match_is_told_why(rule, hint):
    assert hint in (never_matches(parse(rule)) or "")


@for_each(
    "rule",
    ["shell", "shell(git push:*)", "edit(src/**)", "fetch(*.python.org)", "memory",
     "shell(echo '$HOME')"],
)  # fmt: skip
def test_an_ordinary_rule_can_match(rule):
    assert never_matches(parse(rule)) is None
