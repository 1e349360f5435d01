"""Continues a session live from one of its steps, several times, each in its own copy; compares the
figures of variants.

Runs are sequential and alternate between variants, so that anything that changes with time or ends
a budget affects them equally.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kode.plugin import BareSession, Config, models
from kode.plugin.errors import ConfigError
from kode.plugin.events import Status
from kode.plugins.replay.agent import Changes
from kode.plugins.replay.play import Replay, play
from kode.plugins.replay.played import Live
from kode.plugins.replay.recording import Recording
from kode.plugins.replay.scratch import scratch

Z = 1.96
"""For a 95 % interval."""
VERIFY_TIMEOUT_S = 600.0  # as the longest command


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to continue."""

    name: str
    model: str | None = None
    """None: the recorded one."""
    append_system: str = ""
    without_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run."""

    step: int
    """The first live step, from 1."""
    times: int
    verify: str = ""
    """A command whose exit status says whether a run passed; "": the turn's success does."""
    network: bool = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run, from its first live step on."""

    passed: bool
    status: Status
    steps: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None if the model's price is unknown."""
    seconds: float
    why: str
    """Why it did not pass; "" if it did."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The runs of one variant."""

    variant: Variant
    trials: tuple[Trial, ...]

    @property
    def passed(self) -> int:
        return sum(trial.passed for trial in self.trials)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the true pass rate (Wilson)."""
        return wilson(self.passed, len(self.trials))

    def mean(self, figure: Callable[[Trial], float]) -> float:
        """The mean of one figure over all runs; 0 without any."""
        return sum(map(figure, self.trials)) / len(self.trials) if self.trials else 0.0

    def as_json(self) -> dict[str, Any]:
        """For programs; a run's figures are means."""
        low, high = self.interval
        costs = [trial.cost_usd for trial in self.trials]
        known = [cost for cost in costs if cost is not None]
        return {
            "variant": self.variant.name,
            "runs": len(self.trials),
            "passed": self.passed,
            "interval": [round(low, 4), round(high, 4)],
            "tokens": self.mean(lambda trial: trial.input_tokens + trial.output_tokens),
            "cost_usd": sum(known) / len(known) if known and len(known) == len(costs) else None,
            "seconds": round(self.mean(lambda trial: trial.seconds), 3),
            "trials": list(map(asdict, self.trials)),
        }


def wilson(passed: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a share, from 0 to 1; all of it for no runs."""
    if runs == 0:
        return 0.0, 1.0
    share, z2 = passed / runs, Z * Z
    middle = share + z2 / (2 * runs)
    spread = Z * math.sqrt(share * (1 - share) / runs + z2 / (4 * runs * runs))
    scale = 1 + z2 / runs
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


async def run_trials(
    recording: Recording,
    config: Config,
    cwd: Path,
    variants: Sequence[Variant],
    plan: Plan,
    heard: Callable[[Variant, Trial], None],
) -> tuple[list[Outcome], str]:
    """Runs every variant `plan.times` times; `heard` gets each run as it ends. Also returns why
    there are fewer, or "".

    Raises: ConfigError for a missing step, and a budget without a price; UserError without a key;
        StorageError.
    """
    if not 1 <= plan.step <= recording.steps():
        raise ConfigError(
            f"Session {recording.header.id} has {recording.steps()} steps, so it cannot be "
            f"continued from step {plan.step}. `kode replay {recording.header.id}` lists them."
        )
    done: dict[str, list[Trial]] = {variant.name: [] for variant in variants}
    left, stopped = config.max_budget_usd, ""
    for _ in range(plan.times):
        for variant in variants:
            if left is not None and left <= 0:
                stopped = f"The budget of ${config.max_budget_usd:g} is used up."
                continue
            settings = config.model_copy(update={"max_budget_usd": left})
            trial = await _run(recording, settings, cwd, variant, plan)
            done[variant.name].append(trial)
            heard(variant, trial)
            left = None if left is None else left - (trial.cost_usd or 0.0)
    outcomes = [Outcome(variant=one, trials=tuple(done[one.name])) for one in variants]
    return outcomes, stopped


async def _run(
    recording: Recording, config: Config, cwd: Path, variant: Variant, plan: Plan
) -> Trial:
    header = recording.header
    config = config.model_copy(update={"model": header.model, "provider": header.provider})
    provider = BareSession.live_model(config, variant.model)
    config = config.model_copy(update={"model": provider.model, "provider": provider.name})
    live = Live(provider=provider, step=plan.step)
    changes = Changes(
        append_system=variant.append_system,
        without_memory=variant.without_memory,
        network=plan.network,
        needs_sandbox=bool(plan.verify),
        live=live,
    )
    try:
        with scratch(recording, cwd) as copy:
            replay = await play(recording, config, copy, changes)
            seconds = time.monotonic() - live.begun_at if live.begun else 0.0
            passed, why = await _judge(replay, plan)
    finally:
        await provider.aclose()
    return Trial(
        passed=passed,
        status=replay.ended.status if replay.ended is not None else "error",
        steps=sum(step.live for step in replay.steps),
        input_tokens=live.usage.input_tokens,
        output_tokens=live.usage.output_tokens,
        cost_usd=models.cost_usd(provider.info, live.usage),
        seconds=round(seconds, 3),
        why=why,
    )


async def _judge(replay: Replay, plan: Plan) -> tuple[bool, str]:
    """Whether a run passed, and why not."""
    ended = replay.ended
    if not any(step.live for step in replay.steps):
        why = ended.error if ended is not None else None
        return False, f"It did not reach step {plan.step}: {why or 'the record ended before'}"
    if not plan.verify:
        passed = ended is not None and ended.status == "success"
        return passed, "" if passed or ended is None else ended.error or ended.status
    ran = await replay.bare.check(plan.verify, VERIFY_TIMEOUT_S)
    last = (ran.stderr or ran.stdout).strip().rpartition("\n")[2]
    return ran.exit_code == 0, "" if ran.exit_code == 0 else ran.fault or last
