"""Calls of a tool in a project below a home, and what is decided about them."""

from functools import partial
from pathlib import Path
from typing import Any

from kode.permissions import places
from kode.permissions.decide import Call, decide_call
from kode.permissions.rules import Rules, parse_all
from kode.tool import Action, Decision, Tool
from kode.tools.builtin import BUILTIN
from tests.workplaces import workplace

PROJECT = Path("/home/user/project")
MODES = ("ask", "auto-edit", "plan", "full")


async def _nothing(context, arguments):
    return ""


def fake(name: str, effect: Any, target: str = "") -> Tool:
    return Tool(
        name=name,
        description="",
        effect=effect,
        subject="",
        parallel=False,
        parameters=dict,
        check=lambda arguments: arguments,
        run=_nothing,
        target=(lambda arguments: target) if target else None,
    )


TOOLS = {tool.name: tool for tool in BUILTIN} | {
    "memory": fake("memory", "memory"),
    "forget": fake("forget", "memory"),
    "recall": fake("recall", "memory-read"),
    "delegate_tasks": fake("delegate_tasks", "delegate"),
    "mcp__a_b__delete_all": fake("mcp__a_b__delete_all", "mcp", "a.b:delete.all"),
    "mcp__git__log": fake("mcp__git__log", "mcp", "git:log"),
}
_ARGUMENTS = {"shell": "command", "fetch_url": "url"}
_OF_CALL = {"sandbox", "sandbox_forced", "sandbox_network"}
_RULES = {"allow", "deny", "ask"}


def call(mode: Any, tool: str | Tool, argument: Any = None, **more: Any) -> Call:
    """A call; its argument alone stands for its usual name, `more` are rules, fields of the call or
    of its workplace."""
    tool = TOOLS[tool] if isinstance(tool, str) else tool
    if not isinstance(argument, dict):
        argument = {_ARGUMENTS.get(tool.name, "path"): argument} if argument is not None else {}
    fields = {name: more.pop(name) for name in _OF_CALL & {*more}}
    fields["rules"] = Rules(**{name: parse_all(more.pop(name)) for name in _RULES & {*more}})
    fields["approved"] = partial(parse_all, more.pop("approved", ()))
    fields["tainted"] = partial(bool, more.pop("taint", False))
    action = Action(call_id="", tool=tool, arguments=argument)
    place = workplace(more.pop("cwd", PROJECT), **more)
    return Call(mode=mode, action=action, place=place, where=places.path_rules(place), **fields)


def decided(mode: Any, tool: str | Tool, argument: Any = None, **more: Any) -> Decision:
    return decide_call(call(mode, tool, argument, **more))
