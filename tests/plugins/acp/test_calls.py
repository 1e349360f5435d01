import json
from pathlib import Path

from kode.messages import ToolCall
from kode.plugins.acp.updates import show_call
from tests.plugins.acp.conftest import preview

CWD = Path("/p")

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
