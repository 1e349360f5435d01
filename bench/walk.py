"""How far a prompt and a fact walk through the house: `python -m bench.walk [--json]`.

prompt_modules   a turn with one `read_file` call, answered: modules of kode it passes through;
                 likewise prompt_functions, prompt_calls
fact_modules     the third fact kept by the tool of memory; likewise fact_functions, fact_calls
modules, lines   of `kode/`, by room and in all
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


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    return report({**asyncio.run(walks()), **sizes()}, as_json="--json" in argv)


def sizes() -> dict[str, Any]:
    """Python lines and modules of `kode/`; a room is a folder in it, "" for what lies beside."""
    lines: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for path in sorted(ROOT.rglob("*.py")):
        room, *below = path.relative_to(ROOT).parts
        lines[room if below else ""] += len(path.read_text(encoding="utf-8").splitlines())
        modules[room if below else ""] += 1
    return {
        "lines": lines.total(),
        "modules": modules.total(),
        "lines_by_room": dict(lines),
        "modules_by_room": dict(modules),
    }


async def walks() -> dict[str, Any]:
    """One conversation: a file is read after a turn that warmed up, then three facts are kept."""
    from kode.config.load import load_config
    from kode.conversation import Settings, open_conversation
    from kode.events import silent
    from kode.tool import ToolContext

    read = {"name": "read_file", "arguments": {"path": "a.txt"}}
    with workplace("http://127.0.0.1:9") as (project, environ):
        os.environ.update(environ)
        (project / "a.txt").write_text("one\n")
        script = project / "script.json"
        script.write_text(json.dumps([{"text": "", "calls": [read]}, {"text": "Done."}] * 2))
        flags = {"provider": "scripted", "script": str(script)}
        loaded = load_config(Path(environ["KODE_HOME"]), project, environ=environ, flags=flags)
        conversation = await open_conversation(Settings(loaded, emit=silent), cwd=project)
        await conversation.turn("read it")
        prompt = await followed(conversation.turn("read it again"))
        agent = conversation.agent
        memory = next(tool for tool in agent.tools if tool.name == "memory")
        context = ToolContext(
            place=agent.place, call_id="1", session_id=None, emit=silent, seen_files={}
        )
        for text in FACTS:
            arguments = memory.check({"action": "add", "target": "env", "content": text})
            fact = await followed(memory.run(context, arguments))
        # What memory does at the end is not measured here.
        await conversation.close(interrupted=True)
    return {
        **{f"prompt_{name}": value for name, value in prompt.items()},
        **{f"fact_{name}": value for name, value in fact.items()},
    }


async def followed(work: Awaitable[Any]) -> dict[str, int]:
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
    return {
        "modules": len({file for file, _ in calls}),
        "functions": len(calls),
        "calls": calls.total(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
