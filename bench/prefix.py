"""How much of a continued session's request the server has seen: `python -m bench.prefix [--json]`.

kept    memory system → event → share of the request before the event that the first one after it
        repeats, byte for byte, from the beginning (tools, system prompt, messages; cache marks do
        not count); 1.0 is all of it
least   the smallest of them

Each event lies between two processes of the installed command, on one session.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from bench.measure import KODE, by_size, report, workplace
from kode.prompts import compaction_prompt
from tests.scripted_server import ScriptedServer

SYSTEMS = by_size(("tiered", "vault", "journal", "notes"), ("tiered",))
PROVIDERS = by_size({"openai": "gpt-4.1", "anthropic": "claude-sonnet-4-5"}, {"openai": "gpt-4.1"})
EARLY, LATE = "Etc/GMT+12", "Pacific/Kiritimati"
"""Two time zones, 26 hours apart: it is never the same day in both."""

Run = Callable[..., "subprocess.Popen[bytes]"]


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    by_system = {
        system: {
            f"{name}, {provider}": share
            for provider in PROVIDERS
            for name, share in shares(system, provider).items()
        }
        for system in SYSTEMS
    }
    least = min(share for events in by_system.values() for share in events.values())
    as_json = "--json" in argv
    return report({"kept": by_system, "least": least} if as_json else by_system, as_json=as_json)


def shares(system: str, provider: str) -> dict[str, float]:
    """Event → share, for one session with this memory system."""
    by_event: dict[str, float] = {}
    with ScriptedServer(_reply) as server, workplace(server.openai_url) as (project, environ):
        environ["TZ"] = EARLY
        home = Path(environ["KODE_HOME"])
        home.mkdir()
        (project / "notes.txt").write_text("one\n")

        def run(*argv: str, waits: bool = True, **changed: str) -> "subprocess.Popen[bytes]":
            process = subprocess.Popen(
                [KODE, *argv, *_flags(system, provider)],
                env={**environ, **changed},
                cwd=project,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if waits and process.wait():
                raise RuntimeError(f"kode {argv[0]} ended with {process.returncode}")
            return process

        run("run", "Read notes.txt")
        run("continue", "And now?")
        for name in by_size([*EVENTS], ["continued", "killed"]):
            before = _turns(server)
            EVENTS[name](home, run, server)
            by_event[name] = share_kept(before[-1], _turns(server)[len(before)])
    return by_event


def _turns(server: ScriptedServer) -> list[dict[str, Any]]:
    return [request.json for request in server.requests if is_of_session(request.json)]


def is_of_session(body: Mapping[str, Any]) -> bool:
    """Whether a request, in any wire format, continues the session: memory's questions have no
    tools, or memory's alone, and the note of a compaction is asked for by name."""
    names = [tool.get("function", tool).get("name") for tool in body.get("tools") or ()]
    return "read_file" in names and not asks_for_note(body)


def asks_for_note(body: Mapping[str, Any]) -> bool:
    """Whether a request is for the note of a compaction."""
    last = (body.get("messages") or body.get("input") or [{}])[-1]
    return compaction_prompt(0).partition("\n")[0][:60] in json.dumps(last)


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    last = json.dumps(request["messages"][-1])
    if "Read notes.txt" in last:
        return {"calls": [{"name": "read_file", "arguments": {"path": "notes.txt"}}]}
    if "Wait" in last and "Go on" not in last:  # what was cut short goes with the next message
        return {"text": "Late.", "delay_s": 30}
    return {"text": "Done."}


def _flags(system: str, provider: str) -> list[str]:
    return ["--memory", system, "--provider", provider, "--model", PROVIDERS[provider]]


def _continued(home: Path, run: Run, server: ScriptedServer) -> None:
    run("continue", "Go on")


def _fact_added(home: Path, run: Run, server: ScriptedServer) -> None:
    """A person writes into every system's files."""
    for path, line in {
        "memory/facts/env.md": "The tests need Redis on port 6379.\n",
        "memory/vault/facts/tools.md": "- The tests need Redis on port 6379.\n",
        "memory/journal/MEMORY.md": "- The tests need Redis on port 6379.\n",
    }.items():
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + line)
    run("continue", "Go on")


def _other_mode(home: Path, run: Run, server: ScriptedServer) -> None:
    run("continue", "Go on", "--permission-mode", "plan")


def _new_day(home: Path, run: Run, server: ScriptedServer) -> None:
    run("continue", "Go on", TZ=LATE)


def _server_added(home: Path, run: Run, server: ScriptedServer) -> None:
    config = home / "config.json"
    tools = [sys.executable, "-m", "bench.mcp_tools"]
    values = {"command": tools[0], "args": tools[1:]}
    config.write_text(json.dumps({"mcpServers": {"extra": values}}))
    try:
        run("continue", "Go on")
    finally:
        config.unlink()


def _killed(home: Path, run: Run, server: ScriptedServer) -> None:
    """kode is killed while it waits for an answer."""
    count = len(server.requests)
    process = run("continue", "Wait for it", waits=False)
    while len(server.requests) == count:
        time.sleep(0.01)
    process.kill()
    process.wait()
    run("continue", "Go on")


EVENTS: Mapping[str, Callable[[Path, Run, ScriptedServer], None]] = {
    "continued": _continued,
    "continued again": _continued,
    "continued once more": _continued,
    "fact added": _fact_added,
    "other mode": _other_mode,
    "new day": _new_day,
    "server added": _server_added,
    "killed": _killed,
    "after a kill": _continued,
}


def share_kept(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """The share of a request that the next one begins with, in bytes of whole blocks."""
    old, new = pieces(before), pieces(after)
    same = sum(
        len(piece)
        for piece, _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    )
    return round(same / sum(map(len, old)), 4)


def pieces(body: Mapping[str, Any]) -> list[str]:
    """A request in the order that a server reads it, cut between blocks, without cache marks. A
    user's message may be followed by more of the same role."""
    parts = [json.dumps(body.get("tools")), json.dumps(_unmarked(body.get("system")))]
    for message in body.get("messages") or body.get("input") or ():
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        rest = {key: value for key, value in message.items() if key not in ("content", "role")}
        parts += [json.dumps([message.get("role"), rest])]
        parts += [json.dumps(_unmarked(block)) for block in blocks]
    return parts


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
