"""The provider in `docs/adding-a-provider.md` works as it stands there."""

import re
from pathlib import Path
from typing import Any

from kode.contracts import ProviderSettings, Request
from kode.events import Event
from kode.messages import text_of, user_message
from kode.providers.models import info_of

RECIPE = Path(__file__).parents[2] / "docs" / "adding-a-provider.md"


async def test_the_provider_of_the_recipe_replies() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", RECIPE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(RECIPE), "exec"), names)
    events: list[Event] = []

    settings = ProviderSettings(model="m", info=info_of("m"), idle_timeout_s=1, total_timeout_s=1)
    echo = names["Echo"](settings)
    message = await echo.reply(Request(system="", messages=[user_message("Hi")]), events.append)

    assert (text_of(message), len(events)) == ("Hi", 1)
    await echo.aclose()
