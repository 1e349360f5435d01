"""Every error kode raises on purpose, each with the exit code it ends a command with.

A `UserError` is for the person, who fixes what it names; a `ProviderError` says that the model
could not be asked; a `ToolError` is for the model, as the result of its call. Anything else that
escapes is a bug: `kode.cli` writes a log file and names it in one line.
"""

from typing import Any, Self

from kode.values import dataclass, field

EXIT_OK = 0  # as all programs
EXIT_FAILED = 1  # as most programs
EXIT_TIMEOUT = 2  # promised to scripts in docs/scripts.md
EXIT_NOT_STARTED = 3  # promised to scripts in docs/scripts.md
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


@dataclass(frozen=True)
class Setting:
    """A setting: its dotted key in the config, or a flag's name, and the source that set it or that
    would (`FILE:LINE`, a variable, a flag; `default`: none). As text it is for a person."""

    key: str
    source: str = "default"

    def __str__(self) -> str:
        if self.source == "default":
            return f"`{self.key}` in the config"
        names_itself = self.source.startswith("--") or self.source.isidentifier()
        return self.source if names_itself else f"`{self.key}` in {self.source}"


@dataclass(eq=False, repr=False)
class KodeError(Exception):
    """The base of all. The message is for a reader and ends with what to do next."""

    exit_code = EXIT_FAILED

    text: str
    setting: Setting | None = field(default=None, init=False)
    """The setting to change, if there is one: the last sentence names it."""

    def about(self, setting: Setting | None) -> Self:
        self.setting = setting
        return self

    def __str__(self) -> str:
        last = "" if self.setting is None else f" Set {self.setting}."
        return super().__str__() + last


class UserError(KodeError):
    """Something the user gave is wrong, and kode could not start."""

    exit_code = EXIT_NOT_STARTED


class ConfigError(UserError):
    """A flag, environment variable or config key that kode cannot use."""


class PluginError(ConfigError):
    """A plug-in that cannot be imported, or whose code failed; the message names it."""

    exit_code = EXIT_FAILED


class BusyError(UserError):
    """Another process holds a session or a lock; the message names it."""


@dataclass(eq=False, repr=False, kw_only=True)
class ProviderError(KodeError):
    """A model could not be asked, or its answer could not be used."""

    status: int | None = None
    """The HTTP status, where there was one."""


@dataclass(eq=False, repr=False, kw_only=True)
class TransientError(ProviderError):
    """Likely to pass, so the loop retries (408, 409, 429, 5xx, dropped streams)."""

    retry_after_s: float | None = None
    """The pause in seconds that the server asked for."""
    loading: bool = False
    """Whether the server is still loading its model."""


@dataclass(eq=False, repr=False, kw_only=True)
class Unavailable(ProviderError):
    """The last attempt failed for a reason that passes: a fallback model may answer."""

    reason: str
    """The error's text without the advice on what to do next."""
    partial: str = ""
    """What the attempt had streamed."""


LOADING_PAUSE_S = 1.0  # a server that loads answers the question at once
MAX_LOADING_S = 900.0
"""How often and how long a server that is loading its model is retried: a large model on a slow
disk takes minutes."""

LARGER_WINDOW = (
    "use a model with a larger window, or give your own server one (`-c` of llama.cpp, `num_ctx` "
    "of Ollama, `--max-model-len` of vLLM, Context Length in LM Studio); if kode is wrong about "
    "its size, set `context.window` in the config."
)
"""The next step when a request does not fit."""


@dataclass(eq=False, repr=False, kw_only=True)
class ContextOverflow(ProviderError):
    """The request is larger than the model's window: the loop reduces it and asks again."""

    window: int | None = None
    """In tokens, if the server said so."""


@dataclass(eq=False, repr=False, kw_only=True)
class RefusedError(ProviderError):
    """The server rejected the request for good: a bad model name, a bad schema, no credit."""

    server_text: str = ""
    """Why, in the server's words, with its codes and the parameter it names; "" for no words."""
    part: str = ""
    """The part of the request that the model does not take: a key of `RefusalTable.settings`; "" if
    unknown."""


class ThinkingRefused(RefusedError):
    """The server did not take back thinking that it had sent: the conversation before it has
    changed, or thinking is missing where it wants it. The loop sends the request without it."""


class AuthenticationError(ProviderError):
    """The key is missing, wrong or lacks permission."""


@dataclass(eq=False, repr=False, kw_only=True)
class TurnFailed(KodeError):
    """A turn that a program waited for failed, or is incomplete (`kode.Conversation.ask`)."""

    status: str
    """`incomplete`, `error`, `timeout` or `interrupted`."""
    partial: str
    """As much of an answer as there was."""


@dataclass(eq=False, repr=False, kw_only=True)
class ToolError(KodeError):
    """A tool could not do what the model asked. The text tells the model what to do next."""

    untrusted: str = ""
    """The outside source of words in the message, as in `ToolOutput`: a server's status line is as
    much outside text as its page."""


@dataclass(eq=False, repr=False, kw_only=True)
class ToolRefused(ToolError):
    """The gate refused a call; the text gives the reason, and what would allow it."""

    refusal: Any
    """The same as a `messages.Refusal`."""
    instead: str = ""
    """What the model can do instead."""


@dataclass(eq=False, repr=False, kw_only=True)
class ServerError(KodeError):
    """An MCP server cannot be started or reached, does not answer, or breaks the protocol."""

    untrusted: str = ""
    """As in `ToolError`, for the server's own words."""
    fault: str = ""
    """The text without the server's name, for whoever names it already."""

    def __post_init__(self) -> None:
        self.fault = self.fault or self.text


class SandboxUnknownError(UserError):
    """The sandbox's self-test ran out of time, which says nothing about the sandbox: try again."""


class SessionError(UserError):
    """A session that does not exist, is ambiguous, or cannot be used as asked."""


class MemoryRefused(KodeError):
    """A change to memory that was refused, and why."""


class StorageError(KodeError):
    """A write that did not reach the disk, so what depends on it is not confirmed."""


class Interrupted(KodeError):
    """Stopped by the person before there was a turn to save."""

    exit_code = EXIT_INTERRUPTED


@dataclass(eq=False, repr=False)
class GitError(Exception):
    """git is missing, took too long, or refused. The text says which, in a few words. Not a
    KodeError: the caller either does without git or says what to do next."""

    text: str
    exit_status: int | None = None
    """git's; None if it did not run to its end."""
