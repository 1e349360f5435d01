"""Tools for files in the form that a vendor's models are trained on, against its strict server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.command import Finished, Place
from tests.strict_server import StrictServer

PATCH = """*** Begin Patch
*** Update File: a.py
@@ def g():
-    return 1
+    return 2
*** Add File: new/b.py
+x = "\\d"
*** Delete File: c.py
*** End Patch
"""
A = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"


@contextmanager
def strict(
    place: Place, vendor: str, replies: list[dict[str, Any]], **config: Any
) -> Iterator[StrictServer]:
    place.extra["KODE_MODEL"] = ""
    place.home.mkdir(exist_ok=True)
    (place.project / "a.py").write_text(A)
    (place.project / "c.py").write_text("gone = 1\n")
    with StrictServer(replies, vendor=vendor) as server:
        provider = {"base_url": server.url, "api_key": "a-key-of-tests"}
        settings = {"providers": {vendor: provider}, "memory": {"enabled": False}, **config}
        (place.home / "config.json").write_text(json.dumps(settings))
        yield server
        assert server.refusals == []
        assert server.soft_faults == []


def run(place: Place, vendor: str, model: str, *flags: str) -> Finished:
    return place.run(
        *("run", "go", "--provider", vendor, "--model", model, "--output-format", "json"),
        *("--permission-mode", "auto-edit", *flags),
    )


def test_a_trained_models_patch_is_free_text(place: Place) -> None:
    patch = {"calls": [{"name": "apply_patch", "arguments": PATCH}]}
    with strict(place, "openai", [patch, {"text": "done"}]) as server:
        done = run(place, "openai", "gpt-6.1-sol")
        assert done.code == 0, done.err
        first, last = (request.json for request in server.requests)
    names = {tool.get("function", tool)["name"] for tool in first["tools"]}
    assert {"apply_patch"} == {"apply_patch", "edit_file", "write_file"} & names
    (call,) = [item for item in last["input"] if item["type"] == "custom_tool_call"]
    assert call["input"] == PATCH
    assert sorted(done.json["files_changed"]) == ["a.py", "c.py", "new/b.py"]
    assert (place.project / "a.py").read_text() == A[:-2] + "2\n"
    assert (place.project / "new/b.py").read_text() == 'x = "\\d"\n'
    assert not (place.project / "c.py").exists()


def test_anthropics_editor_and_bash_work_on_kodes_tools(place: Place) -> None:
    def edit(command: str, **given: Any) -> dict[str, Any]:
        arguments = {"command": command, "path": "a.py", **given}
        return {"name": "str_replace_based_edit_tool", "arguments": arguments}

    replies = [
        {"calls": [edit("view", view_range=[1, -1])]},
        {
            "calls": [
                edit("str_replace", old_str="def f", new_str="def h"),
                edit("insert", insert_line=0, insert_text="# top\n"),
                edit("create", path="b.py", file_text="x = 1\n"),
                {"name": "bash", "arguments": {"command": "cat a.py b.py"}},
            ]
        },
        {"calls": [{"name": "bash", "arguments": {"restart": True}}]},
        {"text": "done"},
    ]
    with strict(place, "anthropic", replies, tool_format="editor") as server:
        done = run(place, "anthropic", "claude-sonnet-5-5")
        tools = {tool["name"]: tool for tool in server.requests[0].json["tools"]}
        results = list(server.requests[2].json["messages"][-1]["content"])
    assert done.code == 0, done.err
    assert tools["bash"] == {"type": "bash_20250124", "name": "bash"} | {
        key: value for key, value in tools["bash"].items() if key == "cache_control"
    }
    assert tools["str_replace_based_edit_tool"]["type"] == "text_editor_20250728"
    assert not {"read_file", "edit_file", "write_file", "shell"} & set(tools)
    assert (place.project / "a.py").read_text() == "# top\n" + A.replace("def f", "def h")
    assert [block.get("is_error", False) for block in results] == [False] * 4
    assert "# top\ndef h" in json.dumps(results[-1]).replace("\\n", "\n")
