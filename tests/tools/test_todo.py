import pytest

from kode.errors import ToolError
from kode.tools.todo import todo
from tests.tools.conftest import Call


async def test_the_list_is_said_back_in_readable_form(call: Call) -> None:
    output = await call(
        todo,
        items=[
            {"text": "read\nthe code", "status": "done"},
            {"text": "fix it", "status": "doing"},
            {"text": "test it", "status": "pending"},
        ],
    )

    assert output.text == ("Todo list, 1 of 3 done:\n[x] read the code\n[>] fix it\n[ ] test it")
    assert output.summary == "1/3 done"


async def test_an_empty_list_is_allowed(call: Call) -> None:
    assert (await call(todo, items=[])).text == "The todo list is empty."


async def test_another_status_is_refused_with_the_allowed_ones(call: Call) -> None:
    with pytest.raises(ToolError, match="'pending', 'doing' or 'done'"):
        await call(todo, items=[{"text": "x", "status": "finished"}])
