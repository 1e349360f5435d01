"""Every error kode raises on purpose, each with the exit code it ends a command with.

They are split by who acts on them:

    KodeError                      1
    ├── UserError                  3   the user fixes it: one sentence and the next step
    │   ├── ConfigError            3   a wrong flag, key or value
    │   └── BusyError              3   another kode holds what this one needs
    ├── ProviderError              1   the model could not be asked
    │   ├── TransientError         1   the loop retries (408, 409, 429, 5xx, dropped streams)
    │   ├── ContextOverflow        1   the loop reduces the context and asks again
    │   ├── RefusedError           1   the request was turned down; retrying will not help
    │   └── AuthenticationError    1   the key was not accepted: the user fixes it
    ├── LimitError                 1   a step or budget limit ended the turn
    ├── TurnFailed                 1   a program asked, and the turn did not end well
    ├── ToolError                  1   the model acts: the text becomes the tool's result
    │   └── ToolRefused            1   a person, a rule or the mode said no to the call
    ├── ServerError                1   an MCP server failed, or broke the protocol
    ├── SandboxError               1   what a command changed in the sandbox cannot be used
    ├── SessionError               1   no such session, or one that cannot be used
    ├── MemoryRefused              1   a memory command that cannot be carried out
    ├── StorageError               1   the disk said no (full, read-only, denied)
    └── Interrupted              130   the person stopped it before it had begun

Anything else that escapes is a bug: `kode.cli` writes a log file and names it in one line.
"""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_TIMEOUT = 2
EXIT_NOT_STARTED = 3
EXIT_INTERRUPTED = 130


class KodeError(Exception):
    """The root. Its text is one sentence for a reader, ending with what to do next."""

    exit_code = EXIT_FAILED


class UserError(KodeError):
    """Something the user gave is wrong, and kode could not start."""

    exit_code = EXIT_NOT_STARTED


class ConfigError(UserError):
    """A flag, environment variable or config key that kode cannot use."""


class BusyError(UserError):
    """Another process holds a session or a lock; says which."""


class ProviderError(KodeError):
    """A model could not be asked, or its answer could not be used.

    `status` is the HTTP status where there was one, else None.
    """

    def __init__(self, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class TransientError(ProviderError):
    """Likely to pass: the loop asks again. `retry_after_s` is what the server asked for. `loading`:
    it says that it still loads its model."""

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


LOADING_PAUSE_S = 1.0
MAX_LOADING_S = 900.0
"""How often a server that loads its model is asked again, and for how long: a model can be large
and on a slow disk."""

LARGER_WINDOW = (
    "use a model with a larger window, or give your own server one (`-c` of llama.cpp, `num_ctx` "
    "of Ollama, `--max-model-len` of vLLM, Context Length in LM Studio); where kode is wrong about "
    "its size, set `context.window` in the config."
)
"""The next step where a request does not fit."""


class ContextOverflow(ProviderError):
    """The request is larger than the model's window (the name leaves the builtin alone). `window`
    is its size in tokens as the server said it."""

    def __init__(self, text: str, *, status: int | None = None, window: int | None = None) -> None:
        super().__init__(text, status=status)
        self.window = window


class RefusedError(ProviderError):
    """The server turned the request down for good: a bad model name, a bad schema, no credit."""


class AuthenticationError(ProviderError):
    """The key is missing, wrong or lacks the right."""


class LimitError(KodeError):
    """A limit the user set ended the turn: steps or money."""


class TurnFailed(KodeError):
    """A turn that a program waited for did not end well (`kode.Conversation.ask`). `status` says
    how it ended: `error`, `timeout` or `interrupted`; `partial` is what there was of an answer."""

    def __init__(self, text: str, *, status: str, partial: str) -> None:
        super().__init__(text)
        self.status = status
        self.partial = partial


class ToolError(KodeError):
    """A tool could not do what the model asked. The text tells the model what to do next.

    `untrusted` names where words in it come from that are not the project's own, as in
    `ToolOutput`: a server's status line is as much text from outside as its page.
    """

    def __init__(self, text: str, *, untrusted: str = "") -> None:
        super().__init__(text)
        self.untrusted = untrusted


class ToolRefused(ToolError):
    """The gate said no to a call; the text says why, and what would allow it."""


class ServerError(KodeError):
    """An MCP server that cannot be started or reached, does not answer, or says what no server
    may. `untrusted` is as in `ToolError`, for words that are the server's."""

    def __init__(self, text: str, *, untrusted: str = "") -> None:
        super().__init__(text)
        self.untrusted = untrusted


class SandboxError(KodeError):
    """What a command changed in the sandbox cannot be looked at; nothing of it becomes real."""


class SessionError(KodeError):
    """A session that does not exist, is ambiguous, or cannot be used as asked."""


class MemoryRefused(KodeError):
    """A change to memory that was not made, and why (the name leaves the builtin alone)."""


class StorageError(KodeError):
    """A write that did not reach the disk. What it would have confirmed is not confirmed."""


class Interrupted(KodeError):
    """Stopped by the person before there was a turn to save."""

    exit_code = EXIT_INTERRUPTED
