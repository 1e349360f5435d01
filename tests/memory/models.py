"""A model for memory: it plays replies in order and notes the requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kode.messages import Message, Text, text_of
from kode.provider import Request

Answer = str | BaseException | Callable[[str], str]


@dataclass
class Model:
    """Plays answers, the last one over and over: a text, an exception to raise, or a function of
    the prompt."""

    answers: Sequence[Answer] = ("distinct",)
    requests: list[Request] = field(default_factory=list)

    async def __call__(self, request: Request) -> Message:
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(request)
        if isinstance(answer, BaseException):
            raise answer
        text = answer if isinstance(answer, str) else answer(self.prompt)
        return Message(role="assistant", parts=(Text(text=text),), stop="end")

    @property
    def prompt(self) -> str:
        """Of the last request."""
        return "\n\n".join(map(text_of, self.requests[-1].messages))
