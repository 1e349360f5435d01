"""What every tool keeps to. A new one in `BUILTIN` is tested without being named here."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kode.errors import ToolError
from kode.tool import Tool, ToolContext, ToolOutput
from kode.tools.builtin import BUILTIN
from tests.workplaces import workplace

every_tool = pytest.mark.parametrize("tool", BUILTIN, ids=lambda tool: tool.name)

CONTRACT = {
    "read_file": ["path", "offset?", "limit?", "show?"],
    "write_file": ["path", "content"],
    "edit_file": ["path", "old_text?", "new_text?", "replace_all?", "edits?"],
    "search_files": ["pattern", "path?", "glob?", "ignore_case?", "context?"],
    "list_files": ["pattern?", "path?"],
    "shell": ["command", "timeout_s?", "description?", "background?"],
    "job": ["id", "wait_s?", "start?", "stop?"],
    "fetch_url": ["url"],
    "todo": ["items"],
}
"""The names and their order are promised to users, scripts and providers' caches."""

MAX_TOKENS = 1_500


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    project = tmp_path / "project"
    project.mkdir()
    return ToolContext(
        place=workplace(project, environment={"PATH": os.environ["PATH"]}),
        call_id="c",
        session_id=None,
        emit=lambda event: None,
        seen_files={},
    )


def _example(schema: Any) -> Any:
    """A small value that a schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "string":
            return "x"
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "array":
            return [_example(schema["items"])]
        case "object":
            return {name: _example(schema["properties"][name]) for name in schema["required"]}
    raise AssertionError(f"a schema of an unknown kind: {schema}")


def _arguments(tool: Tool) -> dict[str, Any]:
    schema = tool.parameters()
    return {name: _example(schema["properties"][name]) for name in schema.get("required", ())}


def test_the_tools_have_the_promised_names_parameters_and_order() -> None:
    found = {}
    for tool in BUILTIN:
        schema = tool.parameters()
        required = schema.get("required", ())
        found[tool.name] = [n if n in required else f"{n}?" for n in schema["properties"]]

    assert list(found.items()) == list(CONTRACT.items())


def test_the_tool_descriptions_fit_the_token_budget() -> None:
    told = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters()}
        for tool in BUILTIN
    ]

    assert len(json.dumps(told)) / 4 <= MAX_TOKENS


@every_tool
def test_the_schema_is_plain(tool: Tool) -> None:
    schema = tool.parameters()
    text = json.dumps(schema)

    assert schema["type"] == "object"
    assert set(schema.get("required", ())) <= set(schema["properties"])
    assert not re.search(r'"(\$ref|\$defs|title|anyOf|oneOf|additionalProperties)"', text)
    assert tool.subject == "" or tool.subject in schema["properties"]
    assert tool.parameters() == schema


@every_tool
def test_the_description_is_a_few_sentences_for_the_model(tool: Tool) -> None:
    assert 20 < len(tool.description) < 400
    assert tool.description.endswith(".")


@every_tool
def test_only_what_changes_nothing_runs_beside_others(tool: Tool) -> None:
    assert not tool.parallel or tool.effect in ("read", "fetch")


@every_tool
def test_an_unknown_parameter_is_answered_with_the_right_ones(tool: Tool) -> None:
    with pytest.raises(ToolError) as caught:
        tool.check({**_arguments(tool), "no_such": 1})

    assert "`no_such`" in str(caught.value)
    assert all(name.rstrip("?") in str(caught.value) for name in CONTRACT[tool.name])


@every_tool
def test_wrong_types_are_refused(tool: Tool) -> None:
    arguments: dict[str, Any] = {name: {"a": 1} for name in tool.parameters()["properties"]}

    with pytest.raises(ToolError, match="was not run"):
        tool.check(arguments)


@every_tool
async def test_a_call_gives_readable_text_or_says_what_to_do(
    tool: Tool, context: ToolContext
) -> None:
    try:
        output = await tool.run(context, tool.check(_arguments(tool)))
    except ToolError as error:
        text = str(error)
        assert text[-1] in ".)?"
    else:
        assert isinstance(output, ToolOutput)
        text = output.text
        assert len(output.summary) < 80

    assert text.strip()
    assert not text.startswith(("{", "["))
    assert "Traceback" not in text


@every_tool
async def test_a_preview_says_no_more_than_the_call_would(tool: Tool, context: ToolContext) -> None:
    before = sorted(context.place.cwd.rglob("*"))
    arguments = tool.check(_arguments(tool))
    if tool.preview is None:
        assert tool.effect != "edit"
        return
    try:
        assert isinstance(tool.preview(context, arguments), str)
    except ToolError as expected:
        with pytest.raises(ToolError, match=re.escape(str(expected))):
            await tool.run(context, arguments)
        return

    assert sorted(context.place.cwd.rglob("*")) == before


@every_tool
async def test_cancellation_passes(tool: Tool, context: ToolContext) -> None:
    async def run() -> None:
        await tool.run(context, tool.check(_arguments(tool)))

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    was_done = task.done()
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)

    assert was_done or isinstance(outcome, asyncio.CancelledError)


def test_importing_the_tools_is_light() -> None:
    heavy = ("pydantic", "httpx2", "selectolax", "pathspec", "difflib", "openai", "anthropic")
    code = f"import sys, kode.tools.builtin; print([m for m in {heavy!r} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
