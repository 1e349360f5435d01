"""`kode answer ID [WORDS]`: answers a session's question from anywhere, once: what counts for
longer is answered at its prompt."""

import os
import sys
from collections.abc import Sequence

from kode.plugin import (
    EXIT_OK,
    ConfigError,
    Parser,
    Question,
    SessionError,
    one_line,
    open_screen,
    paths,
    print_either,
    programs,
    question_lines,
)
from kode.plugins.detached import places, talk


def main(argv: Sequence[str]) -> int:
    """Answers, or shows the question and asks here. Raises: SessionError, ConfigError."""
    parser = Parser(
        "kode answer", "Answer the question that a session in the background waits for."
    )
    parser.add_argument("id", metavar="ID", help="its id, or the beginning or end of it")
    said = "yes, no, or no and what to do instead; without it you are asked here"
    parser.add_argument("words", nargs="*", metavar="WORDS", help=said)
    arguments = parser.parse(argv)
    if programs.depth(os.environ):
        raise ConfigError("An agent's command cannot answer a question to a person: ask them.")
    one = places.find(paths.home(), arguments.id)
    if one.life != "alive":
        raise SessionError(f"{one.id} is not running, so it waits for no answer. See `kode ps`.")
    # Before its question is looked at: an answer must fit the words that were seen here.
    waiting = talk.ask(one.folder, {"do": "question"})
    question = Question(**{**waiting["question"], **_tuples(waiting["question"])})
    line = " ".join(arguments.words)
    if not arguments.words:
        screen = open_screen()
        width = screen.width
        screen.print_painted("\n".join(question_lines(screen, question, width)))
        screen.flush()
        if not (sys.stdin is not None and sys.stdin.isatty()):
            return EXIT_OK
        line = _asked(question)
    choice, message = meaning(line)
    request = {"do": "answer", "number": waiting["number"], "choice": choice, "message": message}
    talk.ask(one.folder, request)
    what = one_line(question.subject or question.title)
    said = "Allowed once" if choice == "once" else "Denied"
    print_either(None, [f"{said}: {what}"], as_json=False)
    return EXIT_OK


def meaning(line: str) -> tuple[str, str]:
    """An answer as typed: its choice, and what is said to the model. Raises: ConfigError for
    another word than yes or no at its beginning."""
    first, _, rest = line.strip().partition(" ")
    word = first.lower().rstrip(",.:;-")
    if word in ("yes", "y") and not rest.strip():
        return "once", ""
    if word in ("no", "n"):
        return "no", rest.strip()
    raise ConfigError(
        "Answer `yes`, `no`, or `no` and what to do instead. What is to count for longer is "
        "answered at its prompt: `kode attach ID`."
    )


def _asked(question: Question) -> str:
    takes = "no [words]" if question.tool == "form" else "yes, no, or no and what to do instead"
    print_either(None, [f"Answer: {takes}. Ctrl-C leaves it waiting."], as_json=False)
    try:
        return input("answer: ")
    except (EOFError, KeyboardInterrupt):
        raise SessionError("Nothing was answered; the question still waits.") from None


def _tuples(values: dict[str, object]) -> dict[str, tuple[object, ...]]:
    """JSON has lists where a question has tuples."""
    return {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
