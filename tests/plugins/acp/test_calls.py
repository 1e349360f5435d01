import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kode.messages import ToolCall
from kode.plain_text import unified_diff
from kode.plugins.acp.updates import edits_of, show_call
from tests.plugins.acp.conftest import preview

CWD = Path("/p")
LINES = st.lists(st.sampled_from(["a", "b", "", "--- c", "+++ b/d", "@@ -1 +1 @@", "-", "+ x"]))
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@given(before=TEXTS, after=TEXTS)
def test_hunks_of_a_diff_turn_the_old_text_new(before: str, after: str) -> None:
    text = before.splitlines(keepends=True)
    for edit, place in edits_of(unified_diff("a.txt", before, after), CWD):
        assert edit.path == place.path == "/p/a.txt"
        old = (edit.old_text or "").splitlines(keepends=True)
        at = (place.line or 0) - 1
        assert text[at : at + len(old)] == old
        text[at : at + len(old)] = edit.new_text.splitlines(keepends=True)

    assert "".join(text) == after


def test_new_files_have_no_old_text_cut_diffs_no_edit() -> None:
    ((edit, place),) = edits_of(unified_diff("sub/a.txt", "", "one\ntwo"), CWD)
    diff = unified_diff("a.txt", "one\ntwo\nthree\n", "one\n2\nthree\n")

    assert (edit.path, edit.old_text, edit.new_text) == ("/p/sub/a.txt", None, "one\ntwo")
    assert place.line == 1
    assert list(edits_of("no diff at all\n@@ -1 +1 @@\n", CWD)) == []
    assert len(list(edits_of(diff[: len(diff) // 2] + "\n[cut here]\n", CWD))) <= 1


SHOWN = {
    ("read_file", '{"path": "a.py", "offset": 7}'): ("read", "Reading a.py", "/p/a.py", 7),
    ("edit_file", '{"path": "/q/a.py"}'): ("edit", "Editing /q/a.py", "/q/a.py", None),
    ("search_files", '{"pattern": "x", "path": "src"}'): ("search", "Searching x", "/p/src", None),
    ("shell", '{"command": "make test"}'): ("execute", "make test", None, None),
    ("fetch_url", '{"url": "https://e.com"}'): ("fetch", "Fetching https://e.com", None, None),
    ("todo", '{"items": []}'): ("think", "Todo", None, None),
}


def test_a_call_is_shown_with_kind_title_and_place() -> None:
    for (name, arguments), expected in SHOWN.items():
        start = show_call(*preview(ToolCall(id="1", name=name, arguments=arguments)), CWD).start
        (place,) = start.locations or [None]
        path, line = (place.path, place.line) if place is not None else (None, None)
        assert (start.kind, start.title, path, line) == expected


def test_malformed_calls_are_shown_all_the_same() -> None:
    for name, arguments in (
        ("edit_file", "no json"),
        ("edit_file", "[]"),
        ("edit_file", '{"path": 5, "edits": [3, {"old_text": 1}]}'),
        ("write_file", '{"path": "", "content": 3}'),
        ("no_such_tool", "{}"),
        ("shell", '{"command": ["a"], "timeout_s": NaN}'),
        ("read_file", '{"offset": 99999999999999}'),
    ):
        call = show_call(*preview(ToolCall(id="1", name=name, arguments=arguments)), CWD)

        assert call.start.title
        assert "NaN" not in json.dumps(dict(call.arguments))
        assert (call.start.locations, call.start.content) == (None, None)
