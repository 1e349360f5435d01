"""The memory systems side by side, on the same month: `python -m bench.systems [--json]`.

Every system that there is lives the month of `bench.month` through the contract, with a model that
answers by rule: it saves what is told with the system's own tools, and sums up what was worked on.

model_calls     a session
prompt_tokens   that memory adds to the prompt, a session
in_prompt       share of questions whose answer stands in the prompt when they are asked
by_search       share whose answer is among the first five hits of a search for the question
stale           times that something changed or expired was shown as true (must be 0)
sensitive       times that something private or a credential was shown (must be 0)
bytes           on disk after the month
ms_HOOK         median of a hook
"""

import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from bench import month
from bench.measure import by_size, report
from bench.month import Fact, Said, Session
from kode.errors import KodeError
from kode.events import no_emit
from kode.memory.contract import MemoryContext, MemorySystem, Turn
from kode.messages import Message, Text, text_of, user_message
from kode.provider import Request
from kode.tool import Tool, ToolContext
from kode.workplace import NOWHERE

T = TypeVar("T")

HITS = 5
CHARS_A_TOKEN = 4
_SUPERSEDED = re.compile(r'"[^"\n]*" superseded by')
"""What a note says of a statement that no longer holds, which is not shown as true."""
PRIVATE_MARKS = (*month.PRIVATE_MARKS, month.TOKEN)


def main(argv: Sequence[str]) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    from kode.registry import SYSTEMS

    rows = {name: asyncio.run(live(name)) for name in SYSTEMS}
    as_json = "--json" in argv
    return report({"systems": rows} if as_json else rows, as_json=as_json)


@dataclass
class Figures:
    """What is counted while a system lives the month."""

    sessions: int = 0
    calls: int = 0
    chars: int = 0
    probes: int = 0
    in_prompt: int = 0
    by_search: int = 0
    stale: int = 0
    sensitive: int = 0
    refused: int = 0
    """Writes that the system turned down."""
    hook_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def timed(self, hook: str, work: Awaitable[T]) -> T:
        started = time.perf_counter()
        result = await work
        self.hook_ms[hook].append((time.perf_counter() - started) * 1000)
        return result

    def look_at(self, shown: str, day: int) -> None:
        """Counts what should not have been shown, or not as true."""
        shown = _SUPERSEDED.sub("superseded by", shown)
        self.stale += sum(mark in shown for mark in month.gone(day))
        self.sensitive += sum(mark in shown for mark in PRIVATE_MARKS)


async def live(name: str, days: int = by_size(month.DAYS, 3)) -> dict[str, Any]:
    """One system's month, or its first `days`."""
    from kode.config.model import MemoryConfig
    from kode.memory.system import make_system

    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        root = Path(folder)
        for number, session in enumerate(month.month(days)):
            # Searching is timed and judged by its ranked order, without a model.
            system = make_system(MemoryConfig(system=name, llm_search=False))
            await live_session(system, root, number, session, figures)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    share = max(1, figures.probes)
    return {
        "sessions": figures.sessions,
        "model_calls": round(figures.calls / figures.sessions, 2),
        "prompt_tokens": round(figures.chars / CHARS_A_TOKEN / figures.sessions),
        "in_prompt": round(figures.in_prompt / share, 3),
        "by_search": round(figures.by_search / share, 3),
        "stale": figures.stale,
        "sensitive": figures.sensitive,
        "refused": figures.refused,
        "bytes": size,
        **{
            f"ms_{hook}": round(statistics.median(times), 2)
            for hook, times in figures.hook_ms.items()
        },
    }


async def live_session(
    system: MemorySystem, root: Path, number: int, session: Session, figures: Figures
) -> None:
    """One session from opening to closing."""
    now = datetime(2026, 3, session.day, session.hour, 0, tzinfo=UTC)
    model = Model(figures, system.name)
    context = MemoryContext(
        root=root / "memory",
        cwd=root,
        project_root=None,
        session_id=f"{now:%Y%m%d-%H%M%S}-{number:06x}",
        emit=no_emit,
        ask_reply=model.reply,
        now=lambda: now,
    )
    figures.sessions += 1
    await figures.timed("open", system.open(context, {}))
    injection = await figures.timed("inject", system.inject("start"))
    shown = [injection.system, injection.first_user]
    tools = {tool.name: tool for tool in system.tools()}
    await figures.timed("maintain", system.maintain())
    messages: list[Message] = []
    for turn_number, said in enumerate(session.turns, 1):
        asked = Turn(number=turn_number, text=said.text)
        shown.append(await figures.timed("recall", system.recall(asked)))
        if said.kind == "probe" and said.fact:
            await probe(system, said.fact, "\n".join(shown), session.day, figures)
        await save(system.name, tools, said, root, figures)
        turn = turn_of(turn_number, said)
        messages += turn.messages
        await figures.timed("after_turn", system.after_turn(turn))
    figures.chars += sum(map(len, shown))
    sections = await figures.timed("snapshot", system.snapshot())
    shown += [section.content for section in sections]
    figures.look_at("\n".join(shown), session.day)
    await figures.timed("before_drop", system.before_drop(messages, "exit"))
    system.state()
    await figures.timed("close", system.close(15.0))


async def probe(system: MemorySystem, fact: Fact, shown: str, day: int, figures: Figures) -> None:
    """Whether what was told is at hand when it is asked about."""
    figures.probes += 1
    figures.in_prompt += fact.value in shown
    hits = await figures.timed("search", system.search(fact.question, HITS))
    text = "\n".join(hit.text for hit in hits)
    figures.by_search += fact.value in text
    figures.look_at(text, day)


def turn_of(number: int, said: Said) -> Turn:
    """The turn as the loop would tell it."""
    answer = Message(role="assistant", parts=(Text(text=said.answer),), stop="end")
    return Turn(
        number=number,
        text=said.text,
        answer=said.answer,
        messages=(user_message(said.text), answer),
    )


# ── a model that answers by rule ─────────────────────────────────────────────────────────────


class Model:
    """Sums up what it is shown. What a newer fact replaces it leaves out, as it does what passes
    and what is private."""

    def __init__(self, figures: Figures, name: str) -> None:
        self._figures = figures
        self._name = name

    async def ask(self, system: str, prompt: str, max_output_tokens: int) -> str:
        self._figures.calls += 1
        replaced = {fact.replaces for fact in month.FACTS if fact.text in prompt}
        facts = [f.text for f in month.FACTS if f.text in prompt and f.text not in replaced]
        work = [f"{v} {t}" for v in month._VERBS for t in month._THINGS if f"{v} {t}" in prompt]
        summary = f"Worked on: {', '.join(work) or 'questions'}. All of it is done."
        if "narrative" in system:
            # Others have tools to write with.
            rows = _rows(prompt, facts) if self._name == "journal" else []
            return json.dumps({"narrative": summary, "facts": rows})
        if "one word" in system or "one word" in prompt:
            return "add"
        return summary

    async def reply(self, request: Request) -> Message:
        if request.tools:
            self._figures.calls += 1
            return Message(role="assistant", parts=(Text(text="nothing"),), stop="end")
        prompt = "\n".join(text_of(message) for message in request.messages)
        text = await self.ask(request.system, prompt, request.max_output_tokens or 0)
        return Message(role="assistant", parts=(Text(text=text),), stop="end")


def _rows(prompt: str, facts: Sequence[str]) -> list[dict[str, Any]]:
    """Each fact with what it does to a line that the prompt numbers."""
    numbered = re.findall(r"(?m)^(\d+)\. (?:- )?(.*)$", prompt)
    lines = {text: int(number) for number, text in numbered}
    older = {fact.text: lines.get(fact.replaces or "", 0) for fact in month.FACTS}
    return [
        {"fact": text, "how": "changes" if older[text] else "new", "line": older[text]}
        for text in facts
    ]


async def save(
    name: str, tools: Mapping[str, Tool], said: Said, root: Path, figures: Figures
) -> None:
    """What the model does with what is told, by the system's own tools.

    A system without tools for writing learns by summing up.
    """
    for tool_name, arguments in await calls_for(name, tools, said, root):
        try:
            await use(tools[tool_name], arguments, root)
        except KodeError:
            figures.refused += 1


async def calls_for(
    name: str, tools: Mapping[str, Tool], said: Said, root: Path
) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a capable model makes: (tool, arguments)."""
    fact = said.fact if said.kind == "fact" else None
    match name:
        case "tiered" if fact:
            where = {"target": fact.about, "scope": "global", "content": fact.text}
            if fact.replaces:
                return [("memory", {"action": "replace", "old_text": fact.replaces, **where})]
            return [("memory", {"action": "add", **where})]
        case "vault" if fact:
            path = f"facts/{'user' if fact.about == 'user' else 'project'}.md"
            if fact.replaces:
                patch = {"oldText": fact.replaces, "newText": fact.text}
                return [("memory_patch", {"path": path, "patches": [patch]})]
            return [("memory_append", {"path": path, "entry": f"- {fact.text}"})]
        case "notes" if fact and fact.replaces:
            hits = await use(tools["recall"], {"query": fact.replaces}, root)
            id = next(part for part in hits.split("[") if fact.replaces in part).split("]")[0]
            return [("update_memory", {"id": id, "content": fact.text})]
        case "notes" if fact:
            return [("remember", {"content": fact.text, "tags": [fact.about]})]
        case "notes" if said.kind == "passing":
            lasts = {"stability": "volatile", "ttl_days": 1}
            return [("remember", {"content": said.text, **lasts})]
        case "notes" if said.kind == "private":
            return [("remember", {"content": said.text, "sensitivity": "sensitive"})]
        case _:
            return []


async def use(tool: Tool, arguments: Mapping[str, Any], root: Path) -> str:
    """One call as the loop makes it. Raises: ToolError."""
    context = ToolContext(place=NOWHERE, call_id="c", session_id=None, emit=no_emit, seen_files={})
    output = await tool.run(context, tool.check(arguments))
    return output if isinstance(output, str) else output.text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
