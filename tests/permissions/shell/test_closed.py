"""A line that may run where there is no sandbox: literal words, exact tables, and nothing else."""

import collections
import subprocess

from hypothesis import given, settings, strategies as st

from kode.permissions.shell import parse
from kode.permissions.shell.judge import judge_line
from tests.effort import share
from tests.permissions.shell.lines import commands, judged, rows
from tests.tables import for_each
from tests.workplaces import ground

CLOSED = [row["cmd"] for row in rows("lines") if row["risk"] == "safe"]

PIECES = st.sampled_from(
    "ls cat echo head sort grep true a b . - / ' \" \\ $ ` ( ) < > & | ; \n # { } [ ] ! ~ * = % + "
    ": , @ ^ \t 2 1 && || == $( <<E `` -n -l 'a:b' \"a:b\" do if then time >/dev/null 2>&1 >&2 .env"
    .split(" ")
    + [" "] * 20
    + [" > /dev/null", " 2>/dev/null", " | ", "'a b'", '"a b"', "\\ ", "cd src && ", "rm -rf x"]
)  # fmt: skip
RANDOM_LINES = st.lists(PIECES, max_size=14).map("".join)


@st.composite
def variants(draw) -> str:
    """A closed line with a few pieces put into it, or taken out."""
    line = draw(st.sampled_from(CLOSED))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(PIECES) + line[at + draw(st.integers(0, 2)) :]
    return line


def test_a_line_that_runs_a_program_not_only_edits():
    assert judged("echo x > a.py; rm b.py").only_edits
    assert not judged("echo x > a.py; make test").only_edits


@for_each("command", CLOSED)
def test_plain_reading_commands_are_closed(command):
    line = judged(command)

    assert line.only_reads
    assert line.known
    assert all(part.risk == "safe" for part in line.parts)


@for_each("command", commands("not_closed"))
def test_a_line_that_could_do_more_is_not_closed(command):
    line = judged(command)

    assert not line.only_reads
    assert line.risk != "safe"


_RECORD = r"""
for name in ls cat echo head sort grep true; do
    eval "$name() { printf '%s\0' $name \"\$@\" $'\1' >> \"\$REC\"; }"
done
"""
"""Each program writes its words at once: those of a pipeline run beside each other."""


@settings(max_examples=share(60), deadline=None)
@given(command=st.one_of(RANDOM_LINES, variants()))
def test_bash_runs_the_words_that_were_judged(command, tmp_path_factory):
    """With every program replaced by one that writes down its words, and none other to be found."""
    line = judged(command)
    if not line.only_reads or "||" in command:
        return
    folder = tmp_path_factory.mktemp("bash")
    record = folder / "record"
    record.touch()
    subprocess.run(
        ["/bin/bash", "--norc", "--noprofile", "-c", f"{_RECORD}\n{command}"],
        cwd=folder,
        env={"PATH": "/nonexistent", "REC": str(record), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )

    ran = record.read_text("utf-8").split("\1\0")[:-1]
    found = collections.Counter(tuple(each.split("\0")[:-1]) for each in ran)
    assert found <= collections.Counter(part.argv for part in line.parts)
    assert [path.name for path in folder.iterdir()] == ["record"]


@for_each("source", ['a"', "a'", '"a', "'a", "l's'a\"", '"a" b"', 'a"b\\"'])
def test_an_open_quote_makes_no_literal_word(source: str) -> None:
    assert parse.word_of(source).kind != "literal"
    assert parse.parse_plain(source) is None


def test_a_link_leads_where_it_leads(tmp_path):
    project, other = tmp_path / "project", tmp_path / "other"
    (project / "src").mkdir(parents=True)
    other.mkdir()
    (project / "notes").symlink_to(other / "notes.txt")
    (project / "out").symlink_to(other)
    (project / "key").symlink_to(tmp_path / "home" / ".ssh" / "id_rsa")
    where = ground(project, tmp_path / "home")

    assert judge_line("cat src", where).only_reads
    for line in (
        "cat notes",
        "cat out/../other/notes.txt",
        "cd out && ls",
        "cd src && cat ../out/x",
    ):
        assert not judge_line(line, where).only_reads
    assert judge_line("cat key", where).parts[0].leaves == "keys"
    # A folder behind a link has its own parent.
    assert not judge_line("cat out/../project/src", where).parts[0].outside
    assert judge_line("cat out/../x", where).parts[0].outside
