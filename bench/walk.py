"""How far a prompt walks through kode: `python -m bench.walk [--json]`.

Each of `read`, `edit`, `command` is a turn with one call of that kind, answered; `fact` is the
third fact that the tool of memory stores. Of each:

NAME_packages, NAME_modules, NAME_functions   what of kode it passes through
NAME_calls                                    calls of kode's own functions
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import kode
from bench.measure import report, workplace

ROOT = Path(kode.__file__).parent
FACTS = ("The tests run with tox.", "Releases are cut on Fridays.", "The linter is ruff.")
CALLS = {
    "warm_up": {"name": "read_file", "arguments": {"path": "a.txt"}},
    "read": {"name": "read_file", "arguments": {"path": "a.txt"}},
    "edit": {
        "name": "edit_file",
        "arguments": {"path": "a.txt", "old_text": "one", "new_text": "two"},
    },
    "command": {"name": "shell", "arguments": {"command": "wc -l a.txt"}},
}


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    return report(asyncio.run(walk()), as_json="--json" in argv)


async def walk() -> dict[str, int]:
    """One conversation: a turn for each call, then three facts."""
    from kode.config.load import load_config
    from kode.conversation import Settings, open_conversation
    from kode.events import no_emit
    from kode.tool import ToolContext

    figures: dict[str, int] = {}
    with workplace("http://127.0.0.1:9") as (project, environ):
        os.environ.update(environ)
        (project / "a.txt").write_text("one\n")
        script = project / "script.json"
        done = {"text": "Done."}
        replies = [reply for it in CALLS.values() for reply in ({"text": "", "calls": [it]}, done)]
        script.write_text(json.dumps(replies))
        flags = {"script": str(script), "permissions.mode": "auto-edit"}
        loaded = load_config(Path(environ["KODE_HOME"]), project, environ=environ, flags=flags)
        conversation = await open_conversation(Settings(loaded, emit=no_emit), cwd=project)
        for name in CALLS:
            figures |= await count_calls(name, conversation.turn("Do it."))
        agent = conversation.agent
        memory = next(tool for tool in agent.tools if tool.name == "memory")
        context: Any = ToolContext(
            place=agent.place, call_id="1", session_id=None, emit=no_emit, seen_files={}
        )
        for text in FACTS:
            arguments = memory.check({"action": "add", "target": "env", "content": text})
            figures |= await count_calls("fact", memory.run(context, arguments))
        # What memory does at the end is not measured here.
        await conversation.close(interrupted=True)
    return {name: value for name, value in figures.items() if not name.startswith("warm_up")}


async def count_calls(name: str, work: Awaitable[Any]) -> dict[str, int]:
    """The calls of kode's own functions while this is awaited."""
    calls: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            calls[code.co_filename, code.co_qualname] += 1

    sys.setprofile(note)
    try:
        await work
    finally:
        sys.setprofile(None)
    files = {Path(file).relative_to(ROOT) for file, _ in calls}
    return {
        f"{name}_packages": len({file.parts[0] for file in files if len(file.parts) > 1}),
        f"{name}_modules": len(files),
        f"{name}_functions": len(calls),
        f"{name}_calls": calls.total(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
