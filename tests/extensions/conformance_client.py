"""kode as a client of the conformance suite: `python -m tests.extensions.conformance_client URL`.

The person is scripted: they open every login page, say yes to every form, and leave each field as
it is. Both come as in a session, the form on kode's own screen.
"""

import asyncio
import json
import os
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kode.cli.screen.question import make_elicit
from kode.errors import ServerError
from kode.extensions.mcp_client import Connection
from kode.extensions.mcp_config import Entry
from kode.extensions.mcp_open import opener
from kode.extensions.mcp_values import Definition, Form
from tests.workplaces import workplace

ANSWERS = b"yes\n" + b"\n" * 20
PAGE = "https://conformance-test.local/client-metadata.json"
"""A page about kode that the suite's server knows: such an address is a client's id."""
_GIVEN: dict[str, Any] = {"string": "a", "number": 1, "integer": 1, "boolean": True}
_SECRET = "client_secret"


def main(url: str) -> int:
    """Uses every tool of a server once; 1 if a call or the connection fails."""
    reading, writing = os.pipe()
    os.write(writing, ANSWERS)
    os.close(writing)
    os.dup2(reading, 0)
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    try:
        asyncio.run(_use(url, context))
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


async def _use(url: str, context: dict[str, Any]) -> None:
    values: dict[str, Any] = {"type": "http", "url": url}
    if "cimd" in os.environ.get("MCP_CONFORMANCE_SCENARIO", ""):
        context = {"client_id": PAGE}
    if "client_id" in context:
        values["oauth"] = {"clientId": context["client_id"]}
        if _SECRET in context:
            values["oauth"]["clientSecret"] = context[_SECRET]
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        project.mkdir()
        entry = Entry(
            name="suite", origin=project / "c", scope="home", project=project, values=values
        )
        place, on_screen = workplace(project), make_elicit()

        async def elicit(form: Form) -> Mapping[str, Any] | None:
            answer = await on_screen(form)
            if form.url and answer is not None:
                _open_page(form.url)
            return answer

        # As `kode mcp test`, then as a session: there a person may log in again during a call.
        async with opener(place, sandboxed=True, tell=_open_page)(entry) as connection:
            await connection.tools()
        async with opener(place, sandboxed=True, elicit=elicit)(entry) as connection:
            for definition in (await connection.tools()).values():
                await _call(connection, definition)


async def _call(connection: Connection, definition: Definition) -> None:
    properties = definition.parameters.get("properties", {})
    given = {name: _GIVEN.get(one.get("type"), "a") for name, one in properties.items()}
    print(await connection.call(definition.name, given, print))


def _open_page(page: str) -> None:
    """A browser of somebody who is logged in: it follows where it is sent."""

    def get() -> None:
        try:
            urllib.request.urlopen(page, timeout=10).read()
        except (OSError, urllib.error.HTTPError) as error:
            print(error, file=sys.stderr)

    threading.Thread(target=get, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
