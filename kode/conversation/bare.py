"""An agent with a session, and nothing around them: no hooks, servers, skills or plug-ins, and the
model, the tools and the results of their calls that the caller gives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kode.assembly import make_agent, open_workplace, simplify
from kode.config.load import Loaded
from kode.config.model import Config
from kode.conversation.conversation import Settings
from kode.engine.agent import Agent
from kode.engine.context import Context, open_context
from kode.engine.run import Run
from kode.engine.turn import run_turn
from kode.events import TurnEnded, silent
from kode.memory.contract import InjectReason, MemorySystem
from kode.messages import Image, Text
from kode.permissions.gate import Gate
from kode.provider import Provider
from kode.session import log
from kode.session.entries import Header
from kode.session.index import writable_path
from kode.tool import ALLOWED, Action, Around, Decision, Tool, ToolContext
from kode.tools.builtin import BUILTIN, SMALL
from kode.workplace import Workplace


class _OpenGate(Gate):
    """Lets every call run: its result is given."""

    async def judge(self, action: Action, context: ToolContext) -> Decision:
        return ALLOWED


@dataclass(kw_only=True)
class BareSession:
    """A new session with an agent for it: `create` it, `staff` it, `open` it, then run turns."""

    settings: Settings
    place: Workplace
    context: Context
    agent: Agent = field(init=False)
    """Made by `staff`; may be replaced before `open`."""

    @classmethod
    def create(cls, config: Config, *, home: Path, cwd: Path, provider: Provider) -> "BareSession":
        """A session in a home of its own. Raises: ConfigError, StorageError."""
        settings = Settings(Loaded(config=config, origins={}))
        place = open_workplace(config, home, cwd)
        header = Header(cwd=writable_path(cwd), model=provider.model, provider=provider.name)
        return cls(settings=settings, place=place, context=Context(log.create(home, header)))

    def staff(
        self, provider: Provider, tools: Sequence[Tool], *, memory: MemorySystem, answer: Around
    ) -> None:
        """Gives it an agent with these tools only, which may run every call: `answer` gives its
        result instead of the tool. Raises: ConfigError for bad rules."""
        settings = replace(self.settings, memory=memory)
        agent = make_agent(settings, provider, self.context.session, self.place)
        if {tool.name for tool in BUILTIN} & {tool.name for tool in tools} <= {*SMALL}:
            agent = simplify(agent, settings)
        gate = _OpenGate(rules=agent.gate.rules, state=agent.gate.state, place=agent.place)
        self.agent = replace(agent, tools=tuple(tools), gate=gate, around=answer)

    async def open(self, reason: InjectReason) -> None:
        """Renders the system prompt, or what of it is news in a later process."""
        await open_context(self.agent, self.context, reason)

    async def turn(
        self, text: str, attachments: Sequence[Text | Image], steering: Callable[[], Sequence[Text]]
    ) -> TurnEnded:
        """Runs one turn as `engine.turn.run_turn` does, and raises what it raises."""
        run = Run(agent=self.agent, context=self.context, emit=silent, steering=steering)
        return await run_turn(run, text, attachments)
