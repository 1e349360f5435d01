"""An agent with a session, and nothing around them: no hooks, servers, skills or plug-ins, and the
model and memory that the caller gives. `opening` opens a person's conversation.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.assembly import (
    make_agent,
    make_provider,
    of_session,
    open_sandbox,
    open_workplace,
    simplify,
)
from kode.config import Config, provider_for, resolve_provider
from kode.contracts import InjectReason, MemorySystem, Provider, Sandbox, Tool
from kode.conversation.extensions import with_checkers
from kode.engine.agent import Agent, directly
from kode.engine.context import Context, compact, open_context
from kode.engine.turn import run_turn
from kode.events import TurnEnded, silent
from kode.messages import Image, Text
from kode.permissions.gate import Ask, PersonGate
from kode.session import log
from kode.tools.builtin import BUILTIN, SMALL
from kode.workplace import Workplace

if TYPE_CHECKING:
    from kode.extensions.program import Ran


@dataclass(kw_only=True)
class BareSession:
    """A new session with an agent for it: `create` it, `staff` it, `open` it, then run turns."""

    config: Config
    place: Workplace
    context: Context
    sandbox: Sandbox | None
    """Holds every command, even where the settings want none; None where none is possible."""
    agent: Agent = field(init=False)
    """Made by `staff`; may be replaced before `open`."""
    gate: PersonGate = field(init=False)
    """The agent's."""

    @classmethod
    def create(cls, config: Config, *, home: Path, cwd: Path, provider: Provider) -> "BareSession":
        """A session in a home of its own, from which the person's folders are out of reach. Raises:
        ConfigError, StorageError."""
        place = open_workplace(config, home, cwd)
        own = paths.own_folders(paths.home(), config.memory.data_dir)
        session = log.create(home, cwd=cwd, model=provider.model, provider=provider.name)
        place = of_session(replace(place, protected=(*place.protected, *own)), session.id)
        in_sandbox = config.sandbox.model_copy(update={"enabled": True})
        sandbox = open_sandbox(config.model_copy(update={"sandbox": in_sandbox}), place)
        return cls(
            config=config,
            place=place,
            context=Context(session),
            sandbox=sandbox if sandbox and sandbox.kind() == "layered" else None,
        )

    def staff(
        self, provider: Provider, tools: Sequence[Tool], *, memory: MemorySystem, ask: Ask
    ) -> None:
        """Gives it an agent with these tools only. Raises: ConfigError for bad rules, and a budget
        without a price."""
        session = self.context.session
        agent, self.gate, _ = make_agent(
            self.config, provider, session, self.place, emit=silent, ask=ask, memory=memory
        )
        self.agent = replace(agent, tools=tuple(tools))
        if self.config.diagnostics:
            self.agent = replace(self.agent, around=with_checkers(self.agent, directly))
        if {tool.name for tool in BUILTIN} & {tool.name for tool in tools} <= {*SMALL}:
            self.agent = simplify(self.agent, self.config)

    async def open(self, reason: InjectReason) -> None:
        """Renders the system prompt, or what of it is news in a later process."""
        await open_context(self.agent, self.context, reason)

    async def turn(
        self, text: str, attachments: Sequence[Text | Image], steering: Callable[[], Sequence[str]]
    ) -> TurnEnded:
        """Runs one turn as `engine.turn.run_turn` does, and raises what it raises."""
        return await run_turn(self.agent, self.context, text, silent, attachments, steering)

    async def compact(self) -> None:
        """As the person's own compaction. Raises: ProviderError, StorageError."""
        await compact(self.agent, self.context, silent, by_person=True)

    async def check(self, command: str, timeout_s: float) -> "Ran":
        """Runs a shell command in its folder and sandbox; its changes are dropped."""
        from kode.extensions.program import run_program

        return await run_program(
            ("/bin/bash", "-o", "pipefail", "-c", command),
            cwd=self.place.cwd,
            environment=self.place.environment,
            timeout_s=timeout_s,
            sandbox=self.sandbox,
        )

    def close(self) -> None:
        """Releases the session's file."""
        self.context.session.close()

    @staticmethod
    def live_model(config: Config, model: str | None) -> Provider:
        """The provider and model of the settings, or another model at its own provider. Raises:
        UserError without a key; ConfigError."""
        if model is not None and config.provider is not None:
            name = provider_for(config, os.environ, config.provider, model)
            config = config.model_copy(update={"model": model, "provider": name})
        return make_provider(config, resolve_provider(config, os.environ))
