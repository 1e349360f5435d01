import pytest

from kode.permissions.decide import limited_to
from kode.tool import Action
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
    action = Action(call_id="1", tool=TOOLS[name], arguments=arguments)
    advice = await limited_to(only, workplace(tmp_path))(action)
    assert outcome == (
        "any" if advice is None else "plan" if advice.run_in == "read_only" else "refused"
    )
