import pytest

from kode.errors import ToolError
from kode.tools.todo import todo
from tests.tools.conftest import Call


async def test_the_list_is_said_back_in_readable_form(call: Call) -> None:
    items = [("read\nthe code", "done"), ("fix it", "doing"), ("test it", "pending")]
    output = await call(todo, items=[{"text": text, "status": status} for text, status in items])

    assert output.text == ("Todo list, 1 of 3 done:\n[x] read the code\n[>] fix it\n[ ] test it")
    assert output.summary == "1/3 done"
    assert (await call(todo, items=[])).text.endswith("is empty.")
    with pytest.raises(ToolError, match="'pending', 'doing' or 'done'"):
        await call(todo, items=[{"text": "x", "status": "finished"}])
