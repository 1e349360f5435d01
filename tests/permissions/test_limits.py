import pytest

from kode.events import silent
from kode.permissions.limits import limited_to
from kode.tool import Opinion, ToolContext, Verdict
from kode.tools.builtin import BUILTIN
from tests.workplaces import workplace

TOOLS = {tool.name: tool for tool in BUILTIN}


@pytest.mark.parametrize(
    ("only", "name", "arguments", "outcome"),
    [
        (("shell(git log:*)",), "shell", {"command": "git log -3"}, "any"),
        (("shell(git log:*)",), "shell", {"command": "git log | wc"}, "plan"),
        (("shell(git log:*)",), "read_file", {"path": "a.py"}, "refused"),
        (("shell(git log:*)",), "todo", {}, "any"),
        (("shell",), "shell", {"command": "make"}, "any"),
        (("read",), "shell", {"command": "git log"}, "refused"),
        (("read",), "read_file", {"path": "a.py"}, "any"),
        (("edit(./src/**)",), "write_file", {"path": "src/a.py"}, "any"),
        (("edit(./src/**)",), "write_file", {"path": "a.py"}, "refused"),
        (("fetch(docs.python.org)",), "fetch_url", {"url": "https://docs.python.org/3/"}, "any"),
        (("fetch(docs.python.org)",), "fetch_url", {"url": "https://pypi.org/"}, "refused"),
        ((), "read_file", {"path": "a.py"}, "refused"),
    ],
)
async def test_limits_refuse_or_narrow_the_calls_they_do_not_name(
    tmp_path, only, name, arguments, outcome
):
    place = workplace(tmp_path)
    context = ToolContext(place=place, call_id="1", session_id=None, emit=silent, seen_files={})

    said = await limited_to(only, place)(TOOLS[name], arguments, context)

    match said:
        case None:
            assert outcome == "any"
        case Opinion(outcome=narrowed):
            assert narrowed == outcome
        case Verdict(allowed=allowed):
            assert (allowed, outcome) == (False, "refused")
