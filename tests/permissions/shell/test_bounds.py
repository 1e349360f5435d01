"""A line is judged in bounded time, or it is not understood; whatever it is, the judge returns."""

import itertools

import pytest
from hypothesis import given, settings, strategies as st

from kode.permissions.shell import parse
from tests.effort import share
from tests.permissions.shell.lines import judged

UNITS = [
    "[", "$(", "(", "{", "{ ", '"', "`", "'", "<<E\n", "$((", "${", "${x:-", "((", "[[ ", "if ",
    "case x in a) ", "f(){ ", "|", "&&", ">", "<(", "a=(", "\\", "# ", "$", "!", "~", "{a,b}",
    "a[", "<<<", "do ", "a=1 ", "*", "@(", '"$(', "`$(", "\0", "\n", "é", "a;", "ls == \n",
    "2>", "'a' ", "/", "a/", "../", "rm a/b ; ", "cat .env~", "bash -c ", "env ", "xargs ",
]  # fmt: skip


@pytest.mark.parametrize("size", [500, pytest.param(19_000, marks=pytest.mark.slow), 100_000])
def test_a_long_repetitive_line_is_judged_or_given_up(size):
    for unit, before in itertools.product(UNITS, ("", "cat ", 'echo "', "rm $x ")):
        line = judged(before + unit * (size // len(unit)))

        assert not line.only_reads or size == 500 or not unit.strip(), (unit, before)
        assert size < 100_000 or (line.risk, line.known) == ("unknown", False), (unit, before)


def test_deep_nesting_is_not_followed():
    command = "ls"
    for _ in range(5):
        command = f"bash -c {command!r}" if "'" not in command else f'bash -c "{command}"'

    assert not judged(command).only_reads
    assert judged("echo " + "$(" * 3_000 + ")" * 3_000).risk != "safe"


def test_a_parse_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(parse, "MAX_PARSE_S", -1)

    line = judged("echo $(x); " + "a=(" * 2_000)

    assert [(part.risk, part.argv) for part in line.parts] == [("unknown", None)]
    assert not line.known


@pytest.mark.slow
def test_letters_of_all_scripts_are_read():
    """The grammar's own scanner crashes on some of them, now and then."""
    for start in range(0x80, 0x110000, 0x400):
        letters = "".join(map(chr, range(start, min(start + 0x400, 0x110000))))
        if not 0xD800 <= start < 0xE000:
            judged(f"echo {letters} ${letters} <<{letters[:3]}\n")

    parts = judged('git commit -m "日本語 \U0001f600 $X" && rm -rf süß').parts
    assert parts[-1].text == "rm -rf süß"


def test_a_long_text_for_a_file_is_one_part(monkeypatch):
    monkeypatch.setattr(parse, "MAX_PARSE_S", 60.0)
    body = "print('x')\n" * 1_000

    assert judged(f"cat > a.py <<'E'\n{body}E\n").parts[-1].writes == ("/home/user/project/a.py",)


@settings(max_examples=share(300), deadline=None)
@given(
    st.text(max_size=60) | st.text(alphabet=" \n\t;&|<>(){}[]$'\"\\`#!*?~=abrmls/.-", max_size=60)
)
def test_any_text_is_judged(command):
    line = judged(command)

    assert line.only_reads == (line.risk == "safe")
    assert line.parts or line.only_reads
    assert not line.only_reads or line.known
