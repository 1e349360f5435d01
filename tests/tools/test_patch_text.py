import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.tools.patch_text import BadPatch, Hunk, Misfit, apply, read_patch
from kode.tools.replace_text import Ambiguous, NotFound
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


def test_a_patch_says_what_happens_to_each_file() -> None:
    update, add, delete = read_patch(PATCH)
    (hunk,) = update.hunks
    assert (update.kind, update.path) == ("update", "a.py")
    assert hunk.anchors == ("class A", "def f(self):")
    assert hunk.old == ("kept", "", "removed")
    assert hunk.new == ("kept", "", "added")
    assert hunk.at_end
    assert (add.kind, add.path, add.content) == ("add", "dir/b.py", "one\n\n")
    assert (delete.kind, delete.path) == ("delete", "c.py")


def test_text_around_a_patch_is_no_part_of_it() -> None:
    assert read_patch(f"```\napply_patch <<'EOF'\n{PATCH}\nEOF\n```") == read_patch(PATCH)


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
    with pytest.raises(BadPatch):
        read_patch(text)


def hunk(old: str, new: str, *anchors: str, at_end: bool = False) -> Hunk:
    lines = (tuple(text.split("\n")) if text else () for text in (old, new))
    return Hunk(old=next(lines), new=next(lines), anchors=anchors, at_end=at_end)


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
        ("a\nb\n", Hunk(new=("x",), after_line=0), "x\na\nb\n"),
        ("a\nb\n", Hunk(new=("x",), after_line=2), "a\nb\nx\n"),
    ],
)
def test_a_hunk_changes_its_lines_and_nothing_else(text: str, one: Hunk, after: str) -> None:
    assert apply(text, [one]).text == after


def test_hunks_follow_each_other_and_may_come_in_another_order() -> None:
    text = "a\nx\nb\nx\nc\n"
    assert apply(text, [hunk("b", "B"), hunk("x", "y")]).text == "a\nx\nB\ny\nc\n"
    assert apply(text, [hunk("c", "C"), hunk("a", "A")]).text == "A\nx\nb\nx\nC\n"


@for_each(
    ("hunks", "number", "reason"),
    [
        ([hunk("x = 1", "y")], 1, Ambiguous),
        ([hunk("    x = 1", "y", "def h():")], 1, Ambiguous),
        ([hunk("def f():", "a"), hunk("gone", "b")], 2, NotFound),
        ([hunk("old\n    x = 1", "old\n    x = 2")], 1, NotFound),
        ([hunk("def f():\n    y = 1", "def f():\n    y = 2")], 1, NotFound),
        ([hunk("", "a", "def h():")], 1, NotFound),
        ([hunk("def f():\n    x = 1", "a"), hunk("def f():", "b")], 2, NotFound),
        ([Hunk(new=("x",), after_line=9)], 1, NotFound),
    ],
)
def test_a_hunk_without_one_place_is_named(hunks: list[Hunk], number: int, reason: type) -> None:
    with pytest.raises(Misfit) as error:
        apply(TEXT, hunks)
    assert (error.value.number, type(error.value.reason)) == (number, reason)


lines = st.lists(st.sampled_from(["a", "b", "  c", "", "d "]), max_size=8)


@given(before=lines, old=lines, new=lines, after=lines, end=st.sampled_from(["", "\n"]))
def test_an_applied_hunk_leaves_what_is_around_it(
    before: list[str], old: list[str], new: list[str], after: list[str], end: str
) -> None:
    old, new = ["<", *old, ">"], ["[", *new, "]"]
    text = "\n".join([*before, *old, *after]) + end
    patched = apply(text, [Hunk(old=tuple(old), new=tuple(new))])
    assert patched.text == "\n".join([*before, *new, *after]) + end
