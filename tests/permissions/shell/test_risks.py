"""Each program of a line has its risk, with words to ask about it."""

from typing import get_args

import pytest

from kode.permissions.shell import programs
from tests.permissions.shell.lines import judged, rows
from tests.tables import for_each


@for_each("row", rows("lines"))
def test_a_line_has_the_risk_of_its_worst_part(row):
    line = judged(row["cmd"])
    assert line.risk == row["risk"]
    for part in line.parts:
        assert part.reason[0].islower(), "it completes a sentence"
        assert not part.reason.endswith(".")


@for_each(
    ("command", "reads", "writes"),
    [
        ("cat a src/b", ("a", "src/b"), ()),
        ("grep -f words x a", ("words", "x", "a"), ()),
        ("grep x a", ("a",), ()),
        ("sort < a > b", ("a",), ("b",)),
        ("cp a b c", ("a", "b"), ("c",)),
        ("mv a b", (), ("a", "b")),
        ("rm -f a b", (), ("a", "b")),
        ("sed -i s/x/y/ a", (), ("a",)),
        ("dd if=a of=b", (), ("a", "b")),
        ("[ $n > 3 ]", (), ("3",)),
        ("[ 1 > 3 ]", (), ("3",)),
        ("rm docs/*.md", (), ("docs/*.md",)),
        ("rm $X", (), ()),
        ("cd src && touch x", (), ("src/x",)),
        ("cd src; touch x", (), ()),
        ("(cd src); touch x", (), ()),
        ("python3 x.py data/a.csv", ("x.py", "data/a.csv"), ()),
        ("curl https://x.test/a/b", (), ()),
    ],
)
def test_the_files_that_a_line_names(command, reads, writes):
    parts = judged(command).parts
    project = "/home/user/project/"

    assert [path for part in parts for path in part.reads] == [project + name for name in reads]
    assert [path for part in parts for path in part.writes] == [project + name for name in writes]


@for_each(
    ("command", "known"),
    [
        ("git push && ls", True),
        ("bash -c 'git push'", True),
        ("timeout 9 git push > log", True),
        ("ls $X", False),
        ("X=1 ls", False),
        ("ls | xargs git", False),
        ("env X=1 git push", False),
        ("eval ls", False),
        ("export PATH=x; ls", False),
        ("printf -vPATH x; ls", False),
        ("for f in a; do ls; done", False),
    ],
)
def test_a_line_of_literal_words_and_a_program_is_known(command, known):
    assert judged(command).known is known


def test_the_table_names_only_what_can_be_looked_up():
    kinds = {"", "none", "reads", "writes", "moves", "last"}
    for rule in (rule for found in programs.rules().values() for rule in found):
        assert rule.operands.removeprefix("text ") in kinds, rule
        assert rule.leaves in get_args(programs.Leaves), rule
        assert not rule.spares or rule.risk == "destructive"
    for reader in programs.reading_programs().values():
        assert reader.get("operands", "paths") in ("paths", "text", "none", "text paths")


RISKY = [row["cmd"] for row in rows("lines") if row["risk"] in ("system", "destructive")]
FRAMES = [
    "{}", "ls; {}", "ls && {}", "ls || {}", "ls | {}", "ls\n{}", "if ls; then {}; fi", "({})",
    "for i in a b; do {}; done", "echo $({})", "! {}", "f() {{ {}; }}; f", "cat <<E\n$({})\nE",
    "{{ {}; }} 2>/dev/null", "while ls; do {}; done", "case a in a) {};; esac",
]  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES)
def test_grave_commands_are_found_wherever_they_stand(frame):
    for command in RISKY:
        if "\n" in command or "&" in command:
            continue  # these are lines of their own
        assert judged(frame.format(command)).risk in ("system", "destructive"), command


# How each check of a line ended: `tests/tools/test_check_statuses.py`.


@for_each("row", rows("checks"))
def test_checks_are_watched_unless_they_run_in_the_background(row):
    assert [check.command for check in judged(row["command"]).checks if check.of] == row["checks"]


@for_each(
    ("line", "answers"),
    [
        ("git grep -l x", True),
        ("git -C sub grep x", True),
        ("cd src && grep -rn x . | sort; rg x", True),
        ("diff a b", True),
        ("[ -f x ]", True),
        ("test -f x", True),
        ("grep x | sort", False),
        ("git commit -m x", False),
        ("make", False),
        ("grep x; make", False),
        ("", False),
    ],
)
def test_exit_status_1_of_searches_and_comparisons_is_an_answer(line, answers):
    assert judged(line).exit_one_is_answer is answers
