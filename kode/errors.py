"""Every error kode raises on purpose, each with the exit code it ends a command with.

They are split by who acts on them:

    KodeError                      1
    ├── UserError                  3   the user fixes it: one sentence and the next step
    │   ├── ConfigError            3   a wrong flag, key or value
    │   │   └── PluginError        1   a plug-in of others failed: it is updated, or turned off
    │   ├── BusyError              3   another kode holds what this one needs
    │   ├── SandboxUnknownError    3   nobody knows whether there is a sandbox: try again
    │   └── SessionError           3   no such session, or one that cannot be used
    ├── ProviderError              1   the model could not be asked
    │   ├── TransientError         1   the loop retries (408, 409, 429, 5xx, dropped streams)
    │   ├── Unavailable            1   no retry helped: a fallback model is asked, if there is one
    │   ├── ContextOverflow        1   the loop reduces the context and asks again
    │   ├── RefusedError           1   the request was turned down; retrying will not help
    │   │   └── ThinkingRefused    1   the loop sends it again without the thinking so far
    │   └── AuthenticationError    1   the key was not accepted: the user fixes it
    ├── LimitError                 1   a step or budget limit ended the turn
    ├── TurnFailed                 1   a turn awaited by a program failed
    ├── ToolError                  1   the model acts: the text becomes the tool's result
    │   └── ToolRefused            1   a person, a rule or the mode refused the call
    ├── ServerError                1   an MCP server failed or broke the protocol
    ├── SandboxError               1   what a command changed in the sandbox cannot be used
    ├── MemoryRefused              1   a memory command that cannot be carried out
    ├── StorageError               1   the disk refused a write (full, read-only, denied)
    └── Interrupted              130   the person stopped it before it began

Anything else that escapes is a bug: `kode.cli` writes a log file and names it in one line.
"""

from dataclasses import dataclass
from typing import Any, Self

EXIT_OK = 0  # as all programs
EXIT_FAILED = 1  # as most programs
EXIT_TIMEOUT = 2  # promised to scripts in docs/scripts.md
EXIT_NOT_STARTED = 3  # promised to scripts in docs/scripts.md
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


@dataclass(frozen=True)
class Setting:
    """A setting as it was used: its dotted key in the config, or a flag's name, and what set it, or
    would (`FILE:LINE`, a variable, a flag; `default`: nothing). Its text tells a person."""

    key: str
    source: str = "default"

    def __str__(self) -> str:
        if self.source == "default":
            return f"`{self.key}` in the config"
        names_itself = self.source.startswith("--") or self.source.isidentifier()
        return self.source if names_itself else f"`{self.key}` in {self.source}"


class KodeError(Exception):
    """The root. Its message is one sentence for a reader and ends with what to do next. `setting`
    is the one to change, if there is one: the last sentence names it."""

    exit_code = EXIT_FAILED
    setting: Setting | None = None

    def about(self, setting: Setting | None) -> Self:
        self.setting = setting
        return self

    def __str__(self) -> str:
        last = "" if self.setting is None else f" The setting to change is {self.setting}."
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


class ProviderError(KodeError):
    """A model could not be asked, or its answer could not be used. `status`: the HTTP status where
    there was one, else None."""

    def __init__(self, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class TransientError(ProviderError):
    """Likely to pass, so the loop retries. `retry_after_s` is what the server asked for; `loading`
    means that it is still loading its model."""

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        loading: bool = False,
    ) -> None:
        super().__init__(text, status=status)
        self.retry_after_s = retry_after_s
        self.loading = loading


class Unavailable(ProviderError):
    """The last attempt failed for a reason that passes: another model may answer. `reason` is that
    without what to do next, `partial` what the attempt had streamed."""

    def __init__(self, text: str, *, reason: str, status: int | None = None) -> None:
        super().__init__(text, status=status)
        self.reason = reason
        self.partial = ""


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


class ContextOverflow(ProviderError):
    """The request is larger than the model's window: `window` tokens, if the server said so."""

    def __init__(self, text: str, *, status: int | None = None, window: int | None = None) -> None:
        super().__init__(text, status=status)
        self.window = window


class RefusedError(ProviderError):
    """The server rejected the request for good: a bad model name, a bad schema, no credit. `said`
    is why in its own words, with its codes and the parameter it names; "" if it said nothing.
    `part` is what of the request the model does not take: a key of `RefusalTable.settings`,
    "" if that is not known."""

    def __init__(
        self, text: str, *, status: int | None = None, said: str = "", part: str = ""
    ) -> None:
        super().__init__(text, status=status)
        self.said = said
        self.part = part


class ThinkingRefused(RefusedError):
    """The server did not take back thinking that it had sent: the conversation before it has
    changed, or a part of it is missing, or thinking is missing where it wants it."""


class AuthenticationError(ProviderError):
    """The key is missing, wrong or lacks permission."""


class LimitError(KodeError):
    """A limit the user set ended the turn: steps or money."""


class TurnFailed(KodeError):
    """A turn that a program waited for failed, or is incomplete (`kode.Conversation.ask`).
    `status` is `incomplete`, `error`, `timeout` or `interrupted`; `partial` is as much of an
    answer as there was."""

    def __init__(self, text: str, *, status: str, partial: str) -> None:
        super().__init__(text)
        self.status = status
        self.partial = partial


class ToolError(KodeError):
    """A tool could not do what the model asked. The text tells the model what to do next.

    `untrusted` names the outside source of words in it, as in `ToolOutput`: a server's status line
    is outside text as much as its page.
    """

    def __init__(self, text: str, *, untrusted: str = "") -> None:
        super().__init__(text)
        self.untrusted = untrusted


class ToolRefused(ToolError):
    """The gate refused a call; the text gives the reason, and what would allow it. `refusal` is the
    same as a `messages.Refusal`, `instead` what the model can do."""

    def __init__(self, text: str, *, refusal: Any, instead: str = "") -> None:
        super().__init__(text)
        self.refusal = refusal
        self.instead = instead


class ServerError(KodeError):
    """An MCP server cannot be started or reached, does not answer, or breaks the protocol.
    `untrusted` is as in `ToolError`, for the server's own words; `fault` is the text without the
    server's name, for whoever names it already."""

    def __init__(self, text: str, *, untrusted: str = "", fault: str = "") -> None:
        super().__init__(text)
        self.untrusted = untrusted
        self.fault = fault or text


class SandboxError(KodeError):
    """The changes of a sandboxed command cannot be inspected, so none are applied."""


class SandboxUnknownError(UserError):
    """The sandbox's self-test ran out of time, which says nothing about the sandbox."""


class SessionError(UserError):
    """A session that does not exist, is ambiguous, or cannot be used as asked."""


class MemoryRefused(KodeError):
    """A change to memory that was refused, and why."""


class StorageError(KodeError):
    """A write that did not reach the disk, so what depends on it is not confirmed."""


class Interrupted(KodeError):
    """Stopped by the person before there was a turn to save."""

    exit_code = EXIT_INTERRUPTED


class GitError(Exception):
    """git is missing, took too long, or refused. The text says which, in a few words. Not a
    KodeError: the caller either does without git or says what to do next.

    `exit_status` is git's; None if it did not run to its end.
    """

    def __init__(self, text: str, *, exit_status: int | None = None) -> None:
        super().__init__(text)
        self.exit_status = exit_status
