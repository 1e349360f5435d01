"""Every error kode raises on purpose, each with the exit code it ends a command with, split by who
acts on them. Anything else that escapes is a bug: `kode.cli` writes a report and names it.
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
    """Likely to pass: the loop asks again. `retry_after_s` is what the server asked for."""

    def __init__(
        self, text: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(text, status=status)
        self.retry_after_s = retry_after_s


class ContextOverflow(ProviderError):
    """The request is larger than the model's window (the name leaves the builtin alone)."""


class RefusedError(ProviderError):
    """The server turned the request down for good: a bad model name, a bad schema, no credit."""


class AuthenticationError(ProviderError):
    """The key is missing, wrong or lacks the right."""


class LimitError(KodeError):
    """A limit the user set ended the turn: steps or money."""


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
