"""The provider in `docs/adding-a-provider.md` works as it stands there."""

import re
from pathlib import Path
from typing import Any

from kode.events import Event
from kode.messages import text_of, user_message
from kode.provider import Request
from tests.providers.line import settings_of

RECIPE = Path(__file__).parents[2] / "docs" / "adding-a-provider.md"


async def test_the_provider_of_the_recipe_replies() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", RECIPE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(RECIPE), "exec"), names)
    events: list[Event] = []

    echo = names["Echo"](settings_of("scripted", "m"))
    message = await echo.reply(Request(system="", messages=[user_message("Hi")]), events.append)

    assert (text_of(message), len(events)) == ("Hi", 1)
    assert (echo.name, echo.model) == ("scripted", "m")
    await echo.aclose()
