"""What the first request of a session costs, by part: `python -m bench.first_request [--json]`.

FORMAT total    bytes of the whole request / 4, with every tool and an empty memory
FORMAT system   of that, the system prompt, memory's section included
FORMAT NAME     of that, the tool of this name
FORMAT user     of that, the first message: where the session is, and a task of a few words

The request is the one that the installed command sends to a scripted server.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench.measure import KODE, configure, report, workplace
from kode.providers.request import encode_json
from tests.scripted_server import ScriptedServer

FORMATS: Mapping[str, tuple[str, ...]] = {
    "chat": ("--model", "gpt-4.1"),
    "responses": (),
    "messages": ("--model", "claude-sonnet-4-5"),
}
"""Wire format → flags; without any, the default model answers."""

TASK = "Find out why tests/test_dates.py fails, and fix it."
BYTES_PER_TOKEN = 4


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    figures = {
        f"{name} {part}": tokens
        for name, flags in FORMATS.items()
        for part, tokens in parts(first_request(name, *flags)).items()
    }
    return report(figures, as_json="--json" in argv)


def first_request(api: str, *flags: str) -> bytes:
    """The body of the first request of `kode run` in an empty folder, with every tool offered."""
    with ScriptedServer([{"text": "Done."}]) as server, workplace(server.openai_url) as place:
        project, environ = place
        if api != "messages":
            configure(environ, providers={"openai": {"api": api}})
        subprocess.run(
            [KODE, "run", TASK, "--permission-mode", "full", *flags],
            env=environ,
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return server.requests[0].body


def parts(body: bytes) -> dict[str, int]:
    """Part → tokens, the whole request first."""
    request = json.loads(body)
    messages = request.get("messages") or request["input"]
    system = [message for message in messages if message["role"] in ("system", "developer")]
    contents = {
        "system": system or request.get("system") or request["instructions"],
        **{_name(tool): tool for tool in request["tools"]},
        "user": [message for message in messages if message["role"] == "user"],
    }
    return {
        "total": round(len(body) / BYTES_PER_TOKEN),
        **{part: round(len(encode_json(of)) / BYTES_PER_TOKEN) for part, of in contents.items()},
    }


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("function", tool)["name"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
