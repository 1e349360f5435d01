"""What counts as a difference between a request and the recorded one."""

from hypothesis import given, strategies as st

from kode.messages import Message, Text, ToolResult, user_message
from kode.plugins.replay.recording import Comparison, RequestDifference
from kode.provider import ToolSpec
from tests.tables import for_each

NOW, THEN = "/tmp/kode-replay-x1/shop", "/home/ann/shop"
FORM = Comparison(then_of={NOW: THEN})


def result(text):
    part = ToolResult(call_id="c1", name="shell", text=text)
    return Message(role="tool", parts=(part,))


@for_each(
    ("then", "now"),
    [
        (f"{THEN}/a.py", f"{NOW}/a.py"),
        ("2 passed in 0.12s", "2 passed in 1.3s"),
        ("took 3 ms", "took 12 ms"),
        ("Sun Nov 22 19:13:28 2026", "Mon Nov 23 04:01:00 2026".replace("Mon", "Sun")),
        ("2026-11-22T19:13:28.123Z ok", "2027-01-02T03:04:05Z ok"),
        ("<object at 0x7f8a2c01d0>", "<object at 0x7faa11e2f0>"),
        ("[main 1a2b3c4] fix", "[main 9f8e7d6] fix"),
        (
            "1a2b3c4 fix\n[main (root-commit) 1a2b3c4] fix",
            "3885510 fix\n[main (root-commit) 1234567] fix",
        ),
        ("/tmp/tmpab12/x", "/tmp/tmpzz99/x"),
        ("/h/outputs/shell-call_1-71810826.txt", "/h/outputs/shell-call_1-1a2b3c4d.txt"),
        ('<outside-0123456789abcdef source="x">', '<outside-fedcba9876543210 source="x">'),
    ],
)
def test_differences_between_any_two_runs_count_as_the_same(then, now):
    assert FORM.diff_messages([result(then)], [result(now)]) == []


@for_each(
    ("then", "now"),
    [
        ("2 passed", "3 passed"),
        ("x = 1", "x = 2"),
        (f"{THEN}/a.py", f"{NOW}/b.py"),
        ("exit status 0", "exit status 1"),
        ("12 lines", "13 lines"),
        ("", "a word"),
    ],
)
def test_meaningful_differences_are_named(then, now):
    (found,) = FORM.diff_messages([result(then)], [result(now)])
    assert (found.part, found.name) == ("result", "shell")
    assert found.diff().startswith("--- recorded")


@given(st.text(alphabet="abx/ .\n-1", max_size=60))
def test_a_recorded_path_leads_into_the_copy_and_back(text):
    then = f"{text} {THEN}/a.py {text}"
    assert FORM.normalize(FORM.localize(then)) == FORM.normalize(then)
    assert f"{NOW}/a.py" in FORM.localize(then)
    assert FORM.localize(f"{THEN}2/a.py") == f"{THEN}2/a.py"


def test_a_difference_is_named_by_the_speaker_or_the_section():
    part = Text(text="Be brief.", source="opening", section_name="instructions")

    found = FORM.diff_messages([], [Message(role="user", parts=(part,)), user_message("and brief")])

    assert found == [
        RequestDifference(part="message", name="instructions", then="", now="Be brief."),
        RequestDifference(part="message", name="user", then="", now="and brief"),
    ]


def test_tools_are_compared_one_by_one_then_by_their_order():
    read = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})
    write = ToolSpec(name="write", description="Writes.", parameters={"type": "object"})
    other = ToolSpec(name="read", description="Reads a file.", parameters={"type": "object"})

    assert [one.name for one in FORM.diff_tools((read, write), (other, write))] == ["read"]
    assert [one.name for one in FORM.diff_tools((read,), (read, write))] == ["write"]
    assert [one.name for one in FORM.diff_tools((read, write), (write, read))] == ["order"]
    assert FORM.diff_tools((read, write), (read, write)) == []
