"""What a compaction leaves of what was read: `python -m bench.compaction [--json]`.

Files hold a fact each. The model reads some of them in every turn, several in one reply, and says
none aloud; whatever the window can hold, the person's next words always come. After one, two and
three compactions, by window:

kept      share of the facts in results so far that the next request of the session still holds
words     the same of what the person said
repeated  share of the request before that the request for the note begins with, byte for byte;
          the least of all

The scripted reader writes a note of what it can see in the request that it is sent, as long as the
limit of its answer lets it: what is lost, kode has lost.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.measure import by_size, configure, report, workplace
from bench.prefix import asks_for_note, share_kept
from tests.scripted_server import ScriptedServer, last_user_text

WINDOWS = by_size((20_000, 40_000, 64_000, 100_000, 200_000), (20_000,))
COMPACTIONS = by_size(3, 1)
READS = 4
"""Files read in one reply."""
WINDOWS_PER_FILE = 14
"""A file is so many times smaller than the window: a reply's files take more than a fifth."""
MAX_TURNS = 120
FACT = re.compile(r"fact-\d+ is [0-9a-f]{6}")
WORDS = re.compile(r"Task number \d+\.")


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    rows = {str(window): measure_window(window) for window in WINDOWS}
    names = {"kept": "facts", "words": "words", "repeated": "repeated"}
    figures = {
        name: {window: row[key] for window, row in rows.items()} for name, key in names.items()
    }
    return report(figures, as_json="--json" in argv)


def measure_window(window: int, compactions: int = COMPACTIONS) -> dict[str, Any]:
    """The figures of a session with this window. Raises: RuntimeError if a turn failed, or there
    were fewer compactions."""
    with ScriptedServer(_reply) as server, workplace(server.openai_url) as (project, environ):
        configure(environ, context={"window": window}, memory={"enabled": False})
        with patch.dict(os.environ, environ, clear=True):
            home = Path(environ["KODE_HOME"])
            shares = asyncio.run(_session(project, home, window, compactions, server))
        requests = [request.json for request in server.requests]
    repeated = [
        share_kept(requests[at - 1], request)
        for at, request in enumerate(requests)
        if asks_for_note(request)
    ]
    facts, words = zip(*shares, strict=True)
    return {"facts": facts, "words": words, "repeated": min(repeated, default=0.0)}


async def _session(
    project: Path, home: Path, window: int, compactions: int, server: ScriptedServer
) -> list[tuple[float, float]]:
    """(share of the facts, of the words) in the first request after each compaction."""
    from kode.config.load import load_config
    from kode.conversation import Settings, open_conversation
    from kode.events import Event

    flags = {"provider": "openai", "model": "gpt-4.1", "permissions.mode": "full"}
    loaded = load_config(home, project, environ=os.environ, flags=flags)
    marks: list[tuple[int, set[str], set[str]]] = []
    """Of each compaction: how many requests there were, which facts were read, what was said."""

    def hear(event: Event) -> None:
        if event.type == "context_reduced":
            results = [e for e in talk.session.entries if getattr(e, "role", "") == "tool"]
            read = {fact for result in results for fact in FACT.findall(str(result))}
            marks.append((len(server.requests), read, {f"Task number {n}." for n in range(turn)}))

    talk = await open_conversation(Settings(loaded, emit=hear), cwd=project)
    turn = 0
    try:
        while len(marks) < compactions and turn < MAX_TURNS:
            turn += 1
            for at in range(READS):
                _write(project, READS * (turn - 1) + at, window)
            ended = await talk.turn(f"Task number {turn - 1}. Look at the next files.")
            if ended.status != "success":
                raise RuntimeError(f"turn {turn}: {ended.error}")
    finally:
        await talk.close()
    if len(marks) < compactions:
        raise RuntimeError(f"{len(marks)} compactions in {turn} turns")
    shares = []
    for number, read, said in marks[:compactions]:
        sent = json.dumps(server.requests[number].json)
        shares.append(
            (
                _share(read, set(FACT.findall(sent))),
                _share(said, set(WORDS.findall(sent))),
            )
        )
    return shares


def _share(wanted: set[str], sent: set[str]) -> float:
    return round(len(wanted & sent) / len(wanted), 3)


def _write(project: Path, number: int, window: int) -> None:
    """A file whose fact stands somewhere in the middle."""
    lines = [f"column{at} = row[{at}].strip() or DEFAULT\n" for at in range(window)]
    text = "".join(lines)[: 4 * window // WINDOWS_PER_FILE]
    at = text.index("\n", len(text) * (1 + number % 7) // 9) + 1
    fact = f"# fact-{number} is {hash_of(number)}\n"
    (project / f"part{number}.py").write_text(text[:at] + fact + text[at:], encoding="utf-8")


def hash_of(number: int) -> str:
    return f"{(number + 1) * 2_654_435_761 % 0xFFFFFF:06x}"


def _reply(request: Mapping[str, Any]) -> dict[str, Any]:
    """The model's part: reads after the person's words, says nothing of what it read."""
    if asks_for_note(request) or not request.get("tools"):
        room = 4 * int(request.get("max_tokens") or request.get("max_completion_tokens") or 2_000)
        seen = dict.fromkeys(FACT.findall(json.dumps(request["messages"])))
        return {"text": "\n".join(seen)[-room:] or "Nothing."}
    said = WORDS.findall(last_user_text(dict(request)))
    if not said:
        return {"text": "I have read it."}
    turn = int(re.findall(r"\d+", said[-1])[0])
    paths = [f"part{READS * turn + at}.py" for at in range(READS)]
    return {"calls": [{"name": "read_file", "arguments": {"path": path}} for path in paths]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
