import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kode.diffs import unified_diff
from kode.messages import ToolCall
from kode.plugins.acp.calls import edits_of, hunks_of, proposed_edits, show_call
from kode.tools.builtin import BUILTIN

CWD = Path("/p")
LINES = st.lists(st.sampled_from(["a", "b", "", "--- c", "+++ b/d", "@@ -1 +1 @@", "-", "+ x"]))
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@given(before=TEXTS, after=TEXTS)
def test_hunks_of_a_diff_turn_the_old_text_new(before: str, after: str) -> None:
    text = before.splitlines(keepends=True)
    for hunk in hunks_of(unified_diff("a.txt", before, after), CWD):
        assert hunk.path == "/p/a.txt"
        old = (hunk.old or "").splitlines(keepends=True)
        at = hunk.line - 1
        assert text[at : at + len(old)] == old
        text[at : at + len(old)] = hunk.new.splitlines(keepends=True)

    assert "".join(text) == after


def test_a_new_file_has_no_old_text() -> None:
    (edit,), (place,) = edits_of(unified_diff("sub/a.txt", "", "one\ntwo"), CWD)

    assert (edit.path, edit.old_text, edit.new_text) == ("/p/sub/a.txt", None, "one\ntwo")
    assert place.line == 1


def test_a_cut_or_missing_diff_is_no_edit() -> None:
    diff = unified_diff("a.txt", "one\ntwo\nthree\n", "one\n2\nthree\n")

    assert edits_of("no diff at all\n@@ -1 +1 @@\n", CWD) == ([], [])
    assert len(list(hunks_of(diff[: len(diff) // 2] + "\n[cut here]\n", CWD))) <= 1


def test_a_call_is_shown_with_kind_title_and_place() -> None:
    def shown(name: str, arguments: str) -> tuple[str, str, str, int | None]:
        call = show_call(ToolCall(id="1", name=name, arguments=arguments), BUILTIN, CWD)
        return call.kind, call.title, call.path, call.line

    assert shown("read_file", '{"path": "a.py", "offset": 7}') == (
        "read",
        "Reading a.py",
        "/p/a.py",
        7,
    )
    assert shown("edit_file", '{"path": "/q/a.py"}')[2] == "/q/a.py"
    assert shown("search_files", '{"pattern": "x", "path": "src"}') == (
        "search",
        "Searching x",
        "/p/src",
        None,
    )
    assert shown("shell", '{"command": "make test"}')[:2] == ("execute", "make test")
    assert shown("fetch_url", '{"url": "https://example.com"}')[0] == "fetch"
    assert shown("todo", '{"items": []}')[0] == "think"


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
        call = show_call(ToolCall(id="1", name=name, arguments=arguments), BUILTIN, CWD)

        assert call.title
        assert "NaN" not in json.dumps(dict(call.arguments))
        assert call.locations is None
        assert proposed_edits(call) == []
