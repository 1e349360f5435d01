"""`/goal`, and what its flags begin: `kode run --goal TEXT --verify CMD`."""

import argparse
import re
import shlex
from dataclasses import dataclass, field, replace

from kode.plugin import (
    ConfigError,
    PluginSession,
    Prompt,
    SessionError,
    Transcript,
    UserError,
    find_session,
    kode_home,
    session_file,
)
from kode.plugins.goals import forms
from kode.plugins.goals.forms import Limit, current, goals_of, records_of

NAME = "/goal"
_FLAG = re.compile(r"(?:^|\s)--(verify|protect)(?=\s|=|$)[=\s]*")


@dataclass(frozen=True, kw_only=True)
class GoalRequest:
    """A goal that a person wants."""

    text: str
    verify: str
    protect: list[str] = field(default_factory=list)
    task: str = ""
    """What else they ask with it."""

    @property
    def line(self) -> str:
        """What follows `/goal` for it, as `read_request` reads it."""
        protect = (word for pattern in self.protect for word in ("--protect", pattern))
        line = shlex.join((self.text, "--verify", self.verify, *protect))
        return _paragraphs(line, self.task)


def task(arguments: argparse.Namespace, text: str | None, session_id: str | None) -> str | None:
    """The message that begins the goal of the flags, or resumes the one of the session. Raises:
    ConfigError."""
    flags = {name: value for name, value in vars(arguments).items() if value}
    verify, protect = flags.get("verify", ""), flags.get("protect", [])
    if goal_text := flags.get("goal"):
        if not verify:
            raise ConfigError("--goal needs a check: give --verify CMD with it.")
        request = GoalRequest(text=goal_text, verify=verify, protect=protect, task=text or "")
        return f"{NAME} {request.line}"
    if verify or protect:
        raise ConfigError("--verify and --protect belong to a goal: give --goal TEXT with them.")
    if session_id is None or (text or "").strip():
        return text
    try:
        transcript = Transcript.read(
            session_file(kode_home(), find_session(kode_home(), session_id))
        )
    except SessionError:
        return text
    if current(records_of(transcript.entries)) is not None:
        return f"{NAME} resume"
    asked = transcript.pending_text
    return asked if asked.startswith(f"{NAME} ") else text


async def goal(opened: PluginSession, argument: str) -> str | Prompt:
    """`/goal`: shows the goal, begins or resumes one, or stops it. Raises: UserError,
    StorageError."""
    goals, word = goals_of(opened.records()), argument.strip()
    is_pursued = bool(goals) and goals[-1].status == "unfinished"
    if not goals and not word:
        return "No goal. /goal TEXT --verify CMD begins one."
    if not word:
        return forms.summary(goals[-1])
    if word in ("stop", "resume") and not is_pursued:
        raise UserError("No goal is pursued. /goal TEXT --verify CMD begins one.")
    if word == "stop":
        _end(opened, "stopped by the person")
        return "The goal is no longer pursued. What was done stays; /undo takes back a turn."
    if word == "resume":
        return Prompt(text=forms.RESUME)
    request = read_request(word)
    if is_pursued:
        _end(opened, "another goal took its place")
    return await begin(opened, request)


async def begin(opened: PluginSession, request: GoalRequest) -> Prompt:
    """Records a goal; returns the message of its first turn. Raises: StorageError."""
    patterns = [pattern for pattern in request.protect if pattern != "none"]
    opened.record(
        {
            "goal": len(goals_of(opened.records())) + 1,
            "text": request.text,
            "verify": request.verify,
            "protect": patterns if request.protect else None,
            "limits": limits_of(opened),
            "before_usd": opened.session.spent.cost_usd,
        }
    )
    goal_text = forms.goal_text(goals_of(opened.records())[-1])
    own_words = _paragraphs(request.text, request.task)
    return Prompt(text=_paragraphs(request.task, goal_text), typed=own_words)


def limits_of(opened: PluginSession) -> dict[Limit, float]:
    """The limits that the person has set, for the whole goal."""
    config = opened.config
    limits: dict[Limit, float | None] = {"usd": config.max_budget_usd, "seconds": config.timeout_s}
    if config.max_steps != type(config)().max_steps:
        limits["requests"] = config.max_steps
    return {name: value for name, value in limits.items() if value is not None}


def _end(opened: PluginSession, why: str) -> None:
    opened.record({"ended": "not_reached", "error": f"The goal was not reached: {why}."})


def read_request(line: str) -> GoalRequest:
    """What a person typed: TEXT, `--verify CMD` up to the next flag or empty line, `--protect
    PATTERN`; quotes are needed only around what has a flag in it. What follows an empty line is
    another message, which had not been sent. Raises: UserError."""
    for quoted, _, rest in ((line, "", ""), line.partition("\n\n")):
        try:
            text, *flags = shlex.split(quoted)
        except ValueError:
            continue
        if flags[::2] == ["--verify", *["--protect"] * (len(flags) // 2 - 1)]:
            return GoalRequest(text=text, verify=flags[1], protect=flags[3::2], task=rest.strip())
    text, *parts = _FLAG.split(line)
    request = GoalRequest(text=text.strip(), verify="")
    for flag, value in zip(parts[::2], parts[1::2], strict=True):
        value, _, rest = value.partition("\n\n")
        request = replace(request, task=_paragraphs(request.task, rest))
        if flag == "verify":
            request = replace(request, verify=_unquote(value))
        else:
            request = replace(request, protect=[*request.protect, _unquote(value)])
    if not request.text or not request.verify:
        raise UserError("A goal needs words and a check: /goal TEXT --verify CMD")
    return request


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text.strip() for text in texts if text.strip())


def _unquote(text: str) -> str:
    """A value that stands in quotes as a whole, without them; any other as it is."""
    quoted = re.fullmatch(r"\s*(?:'([^']*)'|\"([^\"]*)\")\s*", text)
    return (quoted[1] or quoted[2] or "") if quoted else text.strip()
