"""A double of `kode.conversation.Conversation` for tests of the REPL: plays a written turn.

`python -m tests.cli.fake_conversation` opens the REPL on it, for tests that need a real terminal.
"""

import asyncio
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

from kode.cli.prompt.repl import run_repl
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import open_screen
from kode.config.model import Config, ProviderPart
from kode.errors import UserError
from kode.events import (
    MemoryChanged,
    Notice,
    RetryScheduled,
    Steered,
    TextDelta,
    ThinkingDelta,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from kode.extensions.review import FoundExtensions
from kode.images import save_picture
from kode.memory.statement import Outcome
from kode.messages import Image, Text, Usage
from kode.permissions.approvals import StandingRule
from kode.permissions.question import Question
from kode.permissions.rules import Rule
from kode.provider import ModelInfo
from kode.session.index import name_from
from kode.session.plan import Plan
from kode.session.spending import Spending, Spent
from kode.tools.background import BackgroundCommands
from kode.undo.undo import FileDiff
from tests.cli.some_events import ended, replied, tool

DIFF = """--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""

ANSWER = """I fixed **add**. The cause:

- it *subtracted*
- `calc.py` line 2

```python
def add(a, b):
    return a + b
```

| file | change |
|---|---|
| calc.py | one line |
"""


QUESTION = Question(
    tool="shell",
    subject="rm -rf build",
    title="Run this command?",
    preview="rm -rf build",
    reason="it deletes files",
    rules=("shell(rm:*)",),
)


class FakeSession(SimpleNamespace):
    def give_name(self, text: str) -> None:
        self.name = name_from(text)


@dataclass
class FakeConversation:
    home: Path
    cwd: Path
    emit: object = None
    ask: object = None
    pause_s: float = 0.02
    rewound: bool = False
    cut_short: bool = False
    gate: object = field(default_factory=lambda: SimpleNamespace(state=SimpleNamespace(mode="ask")))
    model: str = "big-model"
    known: tuple[str, ...] = ("big-model", "small")
    provider: str = "anthropic"
    effort: str | None = None
    turns: int = 0
    asked: list[str] = field(default_factory=list)
    cancelled: int = 0
    closed: bool = False
    fresh_plan: bool = False
    resumed: str | None = None
    attachments: list[object] = field(default_factory=list)
    extensions: object = None
    catalog: FoundExtensions = field(default_factory=FoundExtensions)
    steering: object = tuple
    typed: str | None = None
    sees: bool = True
    pictures: list[str] = field(default_factory=list)
    commands: BackgroundCommands = field(default_factory=BackgroundCommands)
    session: SimpleNamespace = field(
        default_factory=lambda: FakeSession(
            id="20260101-000000-abcdef", messages=(), is_used=False, turns=0, spent=Spent(), name=""
        )
    )

    @property
    def agent(self):
        info = ModelInfo(
            context_window=200_000,
            max_output_tokens=8_000,
            sees_images=self.sees,
            known=self.model in self.known,
        )
        provider = SimpleNamespace(name=self.provider, model=self.model, info=info)
        gate = SimpleNamespace(
            state=self.gate.state,
            standing_rules=lambda: (
                StandingRule(rule=Rule("shell", "ls:*"), source="settings"),
                StandingRule(rule=Rule("edit", "./src/**"), at="2026-11-02"),
            ),
            change_approvals=lambda **changes: None,
        )
        return SimpleNamespace(
            provider=provider,
            place=self.place,
            effort=self.effort,
            gate=gate,
        )

    @property
    def plan(self):
        return Plan(self.place.plan)

    @property
    def place(self):
        outputs, plan = self.home / "outputs", self.home / "plan.md"
        return SimpleNamespace(home=self.home, cwd=self.cwd, outputs=outputs, plan=plan)

    @property
    def settings(self):
        loaded = SimpleNamespace(origins={"permissions.allow": "config.json:3"})
        return SimpleNamespace(emit=self.emit, ask=self.ask, loaded=loaded)

    @property
    def config(self):
        providers = {"anthropic": ProviderPart(api_key="k"), "ollama": ProviderPart()}
        return Config(provider="anthropic", providers=providers)

    def attach_command(self, command: str, text: str) -> None:
        self.attachments.append(Text(text=text, source="attachment"))

    def keep_picture(self, name: str, data: bytes) -> Image:
        if not self.sees:
            raise UserError(f"{self.model} cannot see images, so {name} is not sent.")
        self.pictures.append(name)
        return save_picture(self.home / "images", name, data)

    def prompts(self) -> list[str]:
        return list(self.asked)

    async def rewind(self, turn: int, *, files: bool, messages: bool) -> list[str]:
        self.asked[turn - 1 :] = self.asked[turn - 1 :] if not messages else []
        return [f"back before {turn}: files {files}, conversation {messages}"]

    def would_undo(self) -> list[list[str]]:
        return [["calc.py", "notes.txt"], *[[] for _ in self.asked[1:]]]

    def undo_rewind(self) -> bool:
        return self.rewound

    def is_cut_short(self) -> bool:
        return self.cut_short

    def list_offered(self) -> dict[str, str]:
        return {}

    async def turn(self, text: str, *, steering=tuple, typed=None, form=None) -> TurnEnded:
        self.steering, self.typed = steering, typed
        self.turns += 1
        self.session.turns = self.turns
        self.session.is_used = True
        self.asked.append(text)
        self.emit(TurnStarted(text=text))
        try:
            status, result = "success", ANSWER
            await self._play(text)
        except asyncio.CancelledError:
            self.cancelled += 1
            status, result = "interrupted", ""
        usage = Usage(input_tokens=12345, output_tokens=678)
        changes = {"result": result, "usage": usage, "cost_usd": 0.0123, "duration_ms": 1234}
        end = replace(ended(status), **changes)
        self.emit(end)
        return end

    async def _play(self, text: str) -> None:
        emit = self.emit
        match text.split():
            case ["echo"]:
                await self._say("You said: echo")
            case ["count", *_]:
                await self._say(f"lines: {text.count(chr(10)) + 1}")
            case ["look", *_]:
                await self._say(f"I see {', '.join(self.pictures) or 'nothing'}.")
                self.pictures.clear()
            case ["steer"]:
                emit(ToolStarted(call_id="s", name="shell", subject="sleep 1"))
                while not (self.cwd / "go").exists():  # the test has seen what waits
                    await asyncio.sleep(0.05)
                said = self.steering()
                emit(Steered(text=said[0].text))
                await self._say(f"Steered by: {said[0].text}")
            case ["plan"]:
                await self._say("## Plan\n\n1. Fix `add` in `calc.py`.\n2. Run `pytest -q`.")
            case ["evil"]:
                await self._say("before\x1b[2Jafter \x1b]0;title\x07done")
            case ["slow"]:
                emit(ToolStarted(call_id="1", name="shell", subject="sleep 60"))
                await asyncio.Event().wait()  # until it is stopped
            case ["ask"]:
                answer = await self.ask(QUESTION)
                await self._say(f"The answer was {answer.choice}: {answer.message}")
            case _:
                await self._fix()

    async def _fix(self) -> None:
        emit = self.emit
        emit(ThinkingDelta(text="Let me look at the code first. "))
        await asyncio.sleep(self.pause_s)
        emit(RetryScheduled(attempt=1, max_attempts=6, delay_s=0.5, reason="overloaded (529)"))
        emit(ToolStarted(call_id="1", name="read_file", subject="calc.py"))
        await asyncio.sleep(self.pause_s)
        emit(replace(tool("read_file", "calc.py"), summary="2 lines"))
        emit(replace(tool("edit_file", "calc.py", diff=DIFF), call_id="2", summary="1 change"))
        emit(replace(tool(is_error=True, text="E  assert 1 == 2"), call_id="3"))
        emit(MemoryChanged(text='merged into env "uses pytest -q"', change_id="c1"))
        emit(Notice(text="search works without vectors"))
        await self._say(ANSWER)

    async def _say(self, text: str) -> None:
        for start in range(0, len(text), 7):
            self.emit(TextDelta(text=text[start : start + 7]))
            await asyncio.sleep(self.pause_s / 10)
        self.emit(replied(text))

    context_tokens = 24_000
    cost_usd = 0.0123

    async def window(self) -> dict[str, int]:
        return {"tools": 4000, "conversation": 20_000}

    async def spending(self) -> dict[str, Spending]:
        usage = Usage(input_tokens=2000, output_tokens=100, cached_tokens=1500)
        spent = Spent(requests=3, usage=usage, cost_usd=0.0123)
        unpriced = Spent(requests=1, usage=usage, unpriced=1)
        both = {self.model: spent, "llama": unpriced}
        session = Spending(both)
        return {"turn": Spending({self.model: spent}), "session": session, "day": session}

    def list_models(self, *, ask: bool = False) -> tuple[str, ...]:
        return ("big-model", "qwen2.5-coder:latest")

    def use_model(self, model: str, provider=None) -> None:
        self.model, self.provider = model, provider or self.provider

    def use_effort(self, effort) -> None:
        self.effort = None if effort == "default" else effort

    def set_permission_mode(self, mode: str) -> None:
        self.gate.state.mode = mode

    def last_answer(self) -> str:
        return ANSWER if self.turns else ""

    def diffs(self) -> list[FileDiff]:
        return [FileDiff(path="calc.py", text=DIFF)]

    async def undo(self) -> str:
        return "restored calc.py"

    async def redo(self) -> str:
        return "brought back calc.py"

    async def memory_command(self, argv) -> Outcome:
        return Outcome(text="memory: " + " ".join(argv))

    async def start(self) -> None:
        pass

    async def switch_session(self, session_id: str | None = None) -> None:
        if session_id is None:
            self.turns = self.session.turns = 0
        else:
            self.resumed = self.session.id = session_id

    async def compact(self, wish=""): ...

    async def answer_question(self, question: str) -> str:
        await asyncio.sleep(60 if question == "for long?" else 0)
        return f"**{question}** It does.\n\n- on both\n- sides"

    closing = "Saving memory"

    async def close(self) -> None:
        self.closed = True
        self.home.mkdir(exist_ok=True)
        (self.home / "closed").write_text(f"cancelled {self.cancelled}")


async def main() -> int:
    from kode.cli.screen.question import make_ask

    screen = open_screen()
    renderer = Renderer(screen)
    home = Path(os.environ["KODE_HOME"])
    conversation = FakeConversation(home, Path.cwd(), emit=renderer.emit, ask=make_ask(screen))

    async def opening() -> FakeConversation:
        await asyncio.sleep(conversation.pause_s)
        return conversation

    code = await run_repl(opening, screen=screen, renderer=renderer)
    print(f"left with {code}, closed {conversation.closed}, cancelled {conversation.cancelled}")
    return code


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
