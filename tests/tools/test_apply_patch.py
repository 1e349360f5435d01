import pytest
from hypothesis import given, strategies as st

from kode.errors import ToolError
from kode.plain_text import normalize_line_ends
from kode.tools.apply_patch import Hunk, delete_file, patch_file, read_patch
from kode.tools.edit import Misfit, Replaced, restore_ends, write_file
from tests.tables import for_each

PATCH = """*** Begin Patch
*** Update File: a.py
@@ class A
@@   def f(self):
 kept

-removed
+added
*** End of File

*** Add File: dir/b.py
+one
+
*** Delete File: c.py
*** End Patch"""


def test_a_patch_stands_for_a_call_for_each_file() -> None:
    hunk = Hunk(
        old=["kept", "", "removed"],
        new=["kept", "", "added"],
        anchors=["class A", "def f(self):"],
        at_end=True,
    )
    assert list(read_patch(PATCH)) == [
        (patch_file, {"path": "a.py", "hunks": [hunk]}),
        (write_file, {"path": "dir/b.py", "content": "one\n\n"}),
        (delete_file, {"path": "c.py"}),
    ]


def test_text_around_a_patch_is_no_part_of_it() -> None:
    text = f"```\napply_patch <<'EOF'\n{PATCH}\nEOF\n```"
    assert list(read_patch(text)) == list(read_patch(PATCH))


@for_each(
    "text",
    [
        "",
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n",
        PATCH.removesuffix("*** End Patch"),
        "*** Begin Patch\n*** End Patch",
        "*** Begin Patch\nhello\n*** Delete File: a\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n@@\nno mark\n*** End Patch",
        "*** Begin Patch\n*** Add File: a\nno mark\n*** End Patch",
    ],
)
def test_other_texts_are_no_patch(text: str) -> None:
    with pytest.raises(ToolError, match="Nothing was written"):
        list(read_patch(text))


def hunk(old: str, new: str, *anchors: str, at_end: bool = False) -> Hunk:
    before, after = (text.split("\n") if text else [] for text in (old, new))
    return Hunk(old=before, new=after, anchors=list(anchors), at_end=at_end)


def apply(text: str, *hunks: Hunk) -> str:
    replaced = Replaced(text=normalize_line_ends(text), is_proven=True)
    for hunk in hunks:
        replaced = hunk.apply(replaced.text, replaced.end)
    return restore_ends(text, replaced.text)


TEXT = "def f():\n    x = 1\n\n\ndef g():\n    x = 1\n"


@for_each(
    ("text", "one", "after"),
    [
        ("a\nb\nc\n", hunk("a\nb", "a\nB"), "a\nB\nc\n"),
        ("max\nx\n", hunk("x", "y"), "max\ny\n"),
        ("a\nb\nc\n", hunk("b", ""), "a\nc\n"),
        ("a\nb", hunk("b", "c"), "a\nc"),
        ("a\nb", hunk("", "c"), "a\nb\nc"),
        ("a\n", hunk("", "b"), "a\nb\n"),
        ("x\na2\nb\nc2\n", hunk("x\na\nb\nc", "x\na\nB\nc"), "x\na2\nB\nc2\n"),
        ("", hunk("", "b"), "b\n"),
        (TEXT, hunk("    x = 1", "    x = 2", "def g():"), TEXT[:-2] + "2\n"),
        (TEXT, hunk("def g():\n    x = 1", "def g():\n    x = 2", "def g():"), TEXT[:-2] + "2\n"),
        (TEXT, hunk("", "    y = 1", "def f():"), TEXT.replace("f():\n", "f():\n    y = 1\n")),
        (TEXT, hunk("    x = 1", "    x = 2", "f()"), TEXT.replace("1", "2", 1)),
        (TEXT, hunk("    x = 1", "    x = 2", at_end=True), TEXT[:-2] + "2\n"),
        ("a \nb\n", hunk("a\nb", "a\nB"), "a \nB\n"),
        ("  if a:\n    b\n", hunk("if a:\n  b", "if a:\n  c\n  d"), "  if a:\n    c\n    d\n"),
        ("a\r\nb\r\n", hunk("a", "a\nx"), "a\r\nx\r\nb\r\n"),
        ("a\nb\n", Hunk(new=["x"], after_line=0), "x\na\nb\n"),
        ("a\nb\n", Hunk(new=["x"], after_line=2), "a\nb\nx\n"),
    ],
)
def test_a_hunk_changes_its_lines_and_nothing_else(text: str, one: Hunk, after: str) -> None:
    assert apply(text, one) == after


def test_hunks_follow_each_other_and_may_come_in_another_order() -> None:
    text = "a\nx\nb\nx\nc\n"
    assert apply(text, hunk("b", "B"), hunk("x", "y")) == "a\nx\nB\ny\nc\n"
    assert apply(text, hunk("c", "C"), hunk("a", "A")) == "A\nx\nb\nx\nC\n"


@for_each(
    ("hunks", "places"),
    [
        ([hunk("x = 1", "y")], 2),
        ([hunk("    x = 1", "y", "def h():")], 2),
        ([hunk("def f():", "a"), hunk("gone", "b")], 0),
        ([hunk("old\n    x = 1", "old\n    x = 2")], 0),
        ([hunk("def f():\n    y = 1", "def f():\n    y = 2")], 0),
        ([hunk("", "a", "def h():")], 0),
        ([hunk("def f():\n    x = 1", "a"), hunk("def f():", "b")], 0),
        ([Hunk(new=["x"], after_line=9)], 0),
    ],
)
def test_a_hunk_without_one_place_changes_nothing(hunks: list[Hunk], places: int) -> None:
    *before, last = hunks
    text = apply(TEXT, *before)
    with pytest.raises(Misfit) as misfit:
        last.apply(text)
    assert len(misfit.value.lines) == places


lines = st.lists(st.sampled_from(["a", "b", "  c", "", "d "]), max_size=8)


@given(before=lines, old=lines, new=lines, after=lines, end=st.sampled_from(["", "\n"]))
def test_an_applied_hunk_leaves_what_is_around_it(
    before: list[str], old: list[str], new: list[str], after: list[str], end: str
) -> None:
    old, new = ["<", *old, ">"], ["[", *new, "]"]
    text = "\n".join([*before, *old, *after]) + end
    assert apply(text, Hunk(old=old, new=new)) == "\n".join([*before, *new, *after]) + end
