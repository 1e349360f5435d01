import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kode.errors import ConfigError
from kode.permissions.rules import (
    make_shell_rule,
    matches_argv,
    matches_path,
    matches_url,
    parse,
)
from tests.tables import for_each
from tests.workplaces import workplace

PLACE = replace(workplace(Path("/p")), user_home=Path("/home/user"))


@for_each(
    ("text", "rule"),
    [
        *((name, name) for name in ("shell", "edit", "write_file", "memory", "delegate", "todo")),
        ("apply_patch", "edit"),
        ("str_replace_based_edit_tool", "edit"),
        ("bash", "shell"),
        ("mcp__git__log", "mcp(git:log)"),
        ("shell(npm run *)", "shell(npm run:*)"),
        ("shell(ls '*')", "shell(ls '*')"),
        ("edit(src/)", "edit(src/**)"),
        ("fetch(https://Docs.python.org/3)", "fetch(docs.python.org)"),
    ],
)
def test_a_rule_is_written_in_one_way(text, rule):
    assert str(parse(text)) == rule


@for_each("text", ["", "bash(ls)", "shell(", "shell()", "shell(*)", "todo(x)", "shell('a)", "rm:*"])
def test_an_invalid_rule_is_an_error_that_quotes_it(text):
    with pytest.raises(ConfigError) as error:
        parse(text)
    assert repr(text) in str(error.value)


@given(
    words=st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1),
    prefix=st.booleans(),
)
def test_a_shell_rule_survives_being_written_and_read(words, prefix):
    rule = make_shell_rule(words, prefix=prefix)
    if words == ["*"] or (not prefix and words[-1].endswith(":*")):
        return

    assert parse(str(rule)) == rule
    assert matches_argv(parse(str(rule)), words)


@for_each(
    ("rule", "command", "expected", "loosely"),
    [
        ("shell(git push:*)", "git push -f", True, True),
        ("shell(git push:*)", "git push", True, True),
        ("shell(git push:*)", "git pushx", False, False),
        ("shell(git status)", "git status", True, True),
        ("shell(git status)", "git status -s", False, False),
        ("shell(ls:*)", "/bin/ls -l", True, True),
        ("shell(tools/ls)", "/bin/tools/ls", False, False),
        ("shell(echo 'a b':*)", "echo 'a b' c", True, True),
        ("shell", "anything", True, True),
        ("edit", "anything", False, False),
        # A deny rule sees through options and folders.
        ("shell(git push:*)", "git -C x push", False, True),
        ("shell(git push:*)", "git -c a=b push x", False, True),
        ("shell(ls:*)", "./ls", False, True),
    ],
)
def test_a_shell_rule_matches_words(rule, command, expected, loosely):
    words = shlex.split(command)
    assert matches_argv(parse(rule), words) is expected
    assert matches_argv(parse(rule), words, loosely=True) is loosely


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
    assert matches_path(parse(rule), path, PLACE) is expected


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
