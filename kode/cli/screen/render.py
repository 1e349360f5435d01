"""Renders events on the screen: settled text above the prompt, the live lines just over it, and
what Ctrl-O opens: the last calls in full.

Decides nothing; `describe` words a line, `markdown` splits a reply."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from kode import events
from kode.cli.screen.describe import (
    NOTICES,
    EventLine,
    describe_agent,
    describe_call,
    describe_calls,
    describe_ending,
    describe_event,
    evidence_line,
    indent,
    is_reported,
    summary_line,
)
from kode.cli.screen.lines import cell_width, clip, duration, fold, one_line
from kode.cli.screen.progress import STOP, Progress
from kode.cli.screen.screen import Screen
from kode.events import ToolFinished
from kode.messages import Text, Thinking, calls_of
from kode.plain_text import sanitize
from kode.values import dataclass, field, replace

if TYPE_CHECKING:
    from kode.cli.screen.markdown import BlockSplitter, MarkdownBlock


LINE_EVERY_S = 0.1  # ten changes a second can be read

MAX_DIFF_LINES = 40  # one screen
MAX_ERROR_LINES = 6  # an error's reason stands at its beginning
MAX_FAILED_LINES = 3
"""Lines shown of a failed command's output."""
MAX_TAIL_LINES = 10  # leaves the prompt and the last call on a small screen
MAX_THOUGHT_LINES = 1_000  # a terminal scrolls back about as far
QUIET = ("read_file", "list_files", "search_files", "fetch_url")
"""Tools that only look at something."""
MAX_ENTRIES = 10  # a few screens
MAX_CHARS = 20_000
"""The most characters shown of each text that Ctrl-O opens."""

_WORDS = [word for word, _ in NOTICES.values() if word]

Kind = Literal["start", "person", "text", "tool", "line"]


def _print_entry(screen: Screen, entry: ToolFinished | str) -> str:
    width = screen.width
    if isinstance(entry, str):
        return f"{_title(screen, 'Thought')}\n{screen.paint('dim', fold(sanitize(entry), width))}"
    title = _title(screen, describe_call(entry, max(width - 6, 10)).text)
    if entry.diff:
        from kode.cli.screen.diffs import paint_diff

        return f"{title}\n{paint_diff(screen, entry.diff)}"
    whole = f"{entry.subject}\n\n" if entry.subject not in title else ""
    text = fold(sanitize(whole + entry.for_model[:MAX_CHARS]).strip("\n"), width)
    return f"{title}\n{screen.paint('error' if entry.is_error else '', text)}"


def _title(screen: Screen, text: str) -> str:
    title = clip(text, max(screen.width - 6, 10))
    line = "─" * max(screen.width - cell_width(title) - 5, 0)
    return screen.paint("bold", f"── {title} {line}".rstrip())


@dataclass
class Renderer:
    """Shows events in the REPL; `emit` is an `Emit`. For use in the event loop's thread only."""

    screen: Screen
    clock: Callable[[], float] = time.monotonic
    details: deque[ToolFinished | str] = field(default_factory=lambda: deque(maxlen=MAX_ENTRIES))
    """What Ctrl-O shows: the last calls and thoughts."""
    progress: Progress = field(default_factory=Progress)
    """What is happening now."""
    unfolded: bool = False
    """Whether thoughts are shown whole (`--verbose`) instead of by their first line."""
    unshown_changes: list[events.MemoryChanged] | None = None
    """Collects changes while a memory command runs, which reports its own. None: all are shown."""
    in_prompt: ClassVar[bool] = True
    """Whether slash commands can be typed."""
    _splitter: "BlockSplitter | None" = None
    """Splits the reply into blocks; None before the first text, when its module is imported."""
    _tail: tuple[tuple[str, int], list[str]] = field(default_factory=lambda: (("", 0), []))
    """The text and width of the unfinished block → the lines that were painted of it."""
    _quiet: list[ToolFinished] = field(default_factory=list)
    """Neighbouring calls that only looked at something, which share a line once another follows."""
    _last: Kind = "start"
    _failed: set[str] = field(default_factory=set)
    """Subjects of this turn's calls that failed and have not succeeded since."""
    _memory: str = ""
    """The last line about memory."""
    _why_again: str = ""
    """Why the current request was last retried: shown once."""
    _streamed: bool = False
    """Whether the current step's text arrived as deltas."""
    _thought: bool = False
    """Whether thinking of the current step arrived as deltas."""

    def emit(self, event: events.Event) -> None:
        """Shows one event. Never raises: a fault of the screen must not end a turn."""
        try:
            self._show(event)
            self.progress.update(event, self.clock())
            self.screen.redraw()
        except Exception as error:  # the promise of `Emit`
            self.screen.print(f"(could not show {event.type}: {type(error).__name__})", "dim")

    def live(self, width: int, height: int) -> list[tuple[str, str]]:
        """Returns what is happening now, as (style, line): the unfinished tail of the reply,
        running tools, the spinner. At most `height` lines of at most `width` columns."""
        progress = self.progress
        if progress.idle:
            return []
        tail = self._render_tail()
        lines = [("", line) for line in tail[-MAX_TAIL_LINES:]]
        if self._quiet:
            calls = describe_calls(self._quiet, width - 2)
            lines.append(("", f"{self.screen.paint(calls.style, calls.mark)} {calls.text}"))
        lines += [("dim", line) for line in progress.list_output(width)]
        lines = lines[-max(height - 1 - len(progress.agents), 1) :]
        agents = (describe_agent(it, width - 2).text for it in progress.agents.values())
        lines += [("dim", f"  {line}") for line in agents]
        if self.screen.asking:
            return lines[-max(height, 1) :]
        spinner = ("", progress.format_line(self.clock(), width))
        gap = [("", "")] if self._will_stand_apart(bool(tail)) else []
        apart = [("", "")] if tail or (self._last == "text" and not lines) else []
        below = [("dim", clip(tip, width))] if (tip := progress.choose_tip(self.clock())) else []
        return [*gap, *lines, *apart, spinner, *below][-max(height, 1) :]

    def _render_tail(self) -> list[str]:
        """The painted lines of the unfinished block of the reply."""
        if self._splitter is None or not (text := self._splitter.preview()):
            return []
        if (text, self.screen.width) != self._tail[0]:
            self._tail = (text, self.screen.width), self._render_markdown(text).split("\n")
        return self._tail[1]

    def render_details(self) -> str:
        """The last calls and thoughts in full, painted, newest last."""
        return "\n\n".join(_print_entry(self.screen, entry) for entry in self.details)

    def show_answer(self, text: str) -> None:
        """Shows an answer of an earlier process as it looked then."""
        self._last = "person"
        self._feed(text)
        self._finish_text()

    def show_aside(self, question: str, answer: str) -> None:
        """Shows a side question and its answer behind a bar, apart from the conversation."""
        self._print_gap("person")  # apart on both sides
        self.screen.print(clip(f"btw: {one_line(question)}", self.screen.width), "bold")
        lines = self._render_markdown(answer).split("\n")
        self.screen.print_painted("\n".join(f"│{line[1:]}" for line in lines))

    def show_outcome(self, line: str) -> None:
        """Shows the outcome of a permission question, together with the call that follows."""
        self._print_gap("tool")
        self.screen.print(line, "dim")

    def _will_stand_apart(self, is_text: bool) -> bool:
        """Whether a blank line will precede the unfinished part once it settles: the live lines
        need it too, or everything would then move down by a line."""
        if is_text and self._last == "text":
            return self._splitter is None or not self._splitter.joined
        kind = "text" if is_text else "line" if self.progress.is_thinking else "tool"
        undecided = kind == "tool" and not (self.progress.running or self._quiet)
        return self._last == "person" if undecided else self._last not in (kind, "start")

    def _show(self, event: events.Event) -> None:
        match event:
            case events.SessionStarted() | events.StepStarted():
                self._streamed = self._thought = False
                self._why_again = ""
            case events.TurnStarted():
                self.screen.waited_s = 0.0
                self._failed.clear()
                self._streamed = False
                self._last = "person"
            case events.Steered():
                self._settle_thinking()
                self._settle_calls()
                self.screen.print_prompt(event.text)
                self._last = "person"
            case events.TextDelta():
                self._settle_thinking()
                self._settle_calls()
                self._streamed = True
                self._feed(event.text)
            case events.ThinkingDelta():
                self._thought = True
            case events.RetryScheduled():
                self._show_retry(event)
            case events.Replied():
                self._show_reply(event)
            case ToolFinished():
                self.details.append(event)
                if event.name not in QUIET:
                    has_failed = event.is_error and not (event.refused or event.stopped)
                    (self._failed.add if has_failed else self._failed.discard)(event.subject)
                self._show_finished_call(event)
            case events.TurnEnded():
                self._show_turn_end(event)
            case events.MemoryChanged(of_session=False) if self.unshown_changes is not None:
                self.unshown_changes.append(event)
            case events.MemoryChanged():
                self._describe(event)
                self._memory = self._memory if event.of_session else event.text
            case events.PlanKept() if self.in_prompt:
                pass  # the question about it follows
            case events.ContextReduced() | events.PlanKept() | events.Notice():
                self._describe(event)
            case events.AgentFinished():
                self._show_agent(event)
            case _:
                pass  # momentary: see `progress`

    def _print_gap(self, kind: Kind) -> None:
        """Prints a blank line if something of another kind was printed last."""
        self._settle_calls()
        if self._last != kind and self._last != "start":
            self.screen.print()
        self._last = kind

    def _settle_calls(self) -> None:
        """Prints the quiet calls that have gathered, on one line."""
        if calls := self._quiet:
            self._quiet = []
            self._print_gap("tool")
            self._print_described(describe_calls(calls, self.screen.width - 2))

    def _describe(self, event: events.Event, more: str = "") -> None:
        """Prints the line about an event, if it has one, with how to undo it."""
        if (line := describe_event(event, self.screen.width)) is None:
            return
        if self.in_prompt and isinstance(event, events.ContextReduced):
            more = " · /compact undo"
        elif self.in_prompt and isinstance(event, events.MemoryChanged) and event.change_id:
            more = f" · /memory undo {event.change_id[:8]}"
        self._print_gap("line")
        self.screen.print(line.text + more, line.style, line.verb if line.verb in _WORDS else "")

    def _print_blocks(self, blocks: "list[MarkdownBlock]") -> None:
        for block in blocks:
            if self._last == "text" and not block.joined:
                self.screen.print()
            self._print_gap("text")
            if self.screen.plain:
                self.screen.print(block.text)
                continue
            self.screen.print_painted(self._render_markdown(block.text))

    def _render_markdown(self, text: str) -> str:
        from kode.cli.screen.markdown import TerminalMarkdown

        return self.screen.render_rich(TerminalMarkdown(sanitize(text)))

    def _feed(self, text: str) -> None:
        if self._splitter is None:
            from kode.cli.screen.markdown import BlockSplitter

            self._splitter = BlockSplitter()
        self._print_blocks(self._splitter.feed(text))

    def _finish_text(self) -> None:
        if self._splitter is not None:
            self._print_blocks(self._splitter.finish())

    def _drop_text(self) -> None:
        if self._splitter is not None:
            self._splitter.drop()

    def _settle_thinking(self) -> None:
        """Prints the thought that has just ended, if any; if the model hides its thoughts, only how
        long it took."""
        if self.progress.is_thinking:
            self._print_thought(self.progress.thought, self.clock() - self.progress.doing_since)
            self.progress.begin("", self.clock())

    def _print_thought(self, text: str, seconds: float = 0.0) -> None:
        text, took = text.strip(), f" for {duration(seconds)}" if seconds >= 1 else ""
        if not text and not took:
            return
        self._print_gap("line")
        if self.unfolded and text:
            self.screen.print(f"Thought{took}:\n{indent(text, MAX_THOUGHT_LINES)}", "dim")
            return
        first = one_line(text.split("\n", 1)[0].strip("*# "))
        line = f"Thought{took}: {first}" if first else f"Thought{took}."
        self.screen.print(clip(line, self.screen.width), "dim")

    def _show_retry(self, event: events.RetryScheduled) -> None:
        again = ""
        if event.discards_text:
            again = " The reply restarts." if self._streamed or self.progress.is_thinking else ""
            self._drop_text()
            self._streamed = False
        is_repeated = event.reason == self._why_again
        self._describe(replace(event, reason="") if is_repeated else event, again)
        self._why_again = event.reason

    def _show_reply(self, event: events.Replied) -> None:
        self._settle_thinking()
        thoughts = (part.text for part in event.message.parts if isinstance(part, Thinking))
        if thought := "\n".join(thoughts).strip():
            self.details.append(thought[-MAX_CHARS:])
        if not self._streamed:
            for part in event.message.parts:
                if isinstance(part, Thinking) and not self._thought:
                    self._print_thought(part.text)
                if isinstance(part, Text):
                    self._feed(part.text)
        if any(call.written for call in calls_of(event.message)):
            self._drop_text()  # what streamed was a call, which gets a line of its own
        self._finish_text()
        self._streamed = False

    def _show_finished_call(self, event: ToolFinished) -> None:
        screen, memory, self._memory = self.screen, self._memory, ""
        if is_reported(event, memory):
            return
        is_quiet = event.name in QUIET and not (event.is_error or event.refusals)
        if is_quiet and self.in_prompt and not screen.plain:
            self._quiet.append(event)
            return
        self._print_gap("tool")
        if event.refused:
            # A person's own refusal stands in the answered question.
            if all(refusal.by != "person" for refusal in event.refusals):
                self._print_described(describe_call(event, screen.width - 2))
            return
        # A summary that merely repeats the beginning of the text adds nothing.
        beginning = one_line(event.summary).rstrip("…").rstrip() or "-"
        is_repeated = event.is_error and one_line(event.text).startswith(beginning)
        shown = replace(event, summary="failed") if is_repeated else event
        self._print_described(describe_call(shown, screen.width - 2))
        if event.diff and event.diff.strip() == screen.approved:
            screen.approved = ""
        elif event.diff:
            from kode.cli.screen.diffs import paint_diff

            screen.print_painted(paint_diff(screen, event.diff, MAX_DIFF_LINES))
            self._last = "line"  # what follows stands apart
        elif event.name == "todo" and not event.is_error:
            screen.print(indent(event.text.partition("\n")[2], 20), "dim")
        elif event.is_error and not event.stopped:
            screen.print(indent(event.text, MAX_ERROR_LINES, tail=True), "dim")
        elif event.failed:
            screen.print(indent(event.text, MAX_FAILED_LINES, tail=True), "dim")
        for refusal in event.refusals:  # changes that did not reach the project
            if refusal.not_kept and refusal.by not in ("person", "mode"):
                screen.print(indent(refusal.for_person, MAX_ERROR_LINES), "warning")

    def _print_described(self, line: EventLine) -> None:
        """Prints a line about a call or a subagent, with its mark."""
        screen = self.screen
        if screen.plain:
            screen.print(line.text)
        elif line.mark == "–":
            screen.print_painted(screen.paint("dim", f"– {line.text}"))
        else:
            screen.print_painted(f"{screen.paint(line.style, line.mark)} {line.text}")

    def _show_agent(self, event: events.AgentFinished) -> None:
        self._print_gap("tool")
        self._print_described(describe_agent(event, self.screen.width - 2))
        if event.summary and event.status != "success":
            self.screen.print(indent(event.summary, MAX_ERROR_LINES), "dim")

    def _show_turn_end(self, event: events.TurnEnded) -> None:
        self._settle_thinking()
        self._finish_text()
        self._settle_calls()
        if event.status not in events.FINISHED:  # what was refused or failed stands above
            self._print_gap("line")
            word = "Error:" if event.status == "error" else ""
            self.screen.print(describe_ending(event), "error" if word else "warning", word)
        if event.steps or event.status not in events.FINISHED:  # else no model was asked
            self._print_gap("line")
            line = summary_line(event, self.screen.waited_s, len(self._failed))
            parts = [line, evidence_line(event)]
            line = " · ".join(filter(None, parts))
            is_bad = event.checked == "failed"
            self.screen.print(line, "error" if is_bad else "dim", "failed" if is_bad else "")
        self._last = "line"
        self.screen.flush()  # at once: a person may have stopped it


@dataclass
class ProgressRenderer(Renderer):
    """Shows events of `kode run` in text format: with `unfolded`, tools' output too, and with
    `live_line`, on a terminal, a temporary line about what is happening."""

    live_line: bool = False
    in_prompt: ClassVar[bool] = False
    _tick: asyncio.TimerHandle | None = None

    def emit(self, event: events.Event) -> None:
        """Shows one event, or nothing. Never raises."""
        super().emit(event)
        if self.live_line and self.screen.rich_terminal:
            self._show_line()

    def _show_line(self, is_tick: bool = False) -> None:
        """Repeatedly shows what is happening, as long as something is."""
        self._tick = None if is_tick else self._tick
        if self.progress.idle:
            self.screen.clear_line()
            return
        stop = STOP if self.progress.since is not None else "Ctrl-C skips"
        self.screen.show_line(self.progress.format_line(self.clock(), self.screen.width - 1, stop))
        if self._tick is None:
            loop = asyncio.get_running_loop()
            self._tick = loop.call_later(LINE_EVERY_S, self._show_line, True)

    def _print_gap(self, kind: Kind) -> None:
        """A log has no blank lines."""

    def _feed(self, text: str) -> None:
        """The answer is printed elsewhere."""

    def _show_finished_call(self, event: ToolFinished) -> None:
        if event.refused:
            line = describe_call(event, self.screen.width - 2)
            self.screen.print(f"{line.mark} {replace(line, outcome='').text}")
            why = event.refusals[0].for_person if event.refusals else event.summary
            self.screen.print(indent(why, MAX_ERROR_LINES), "dim")
            return
        is_shown = event.is_error or event.failed or is_reported(event, self._memory)
        super()._show_finished_call(event)
        if self.unfolded and event.for_model and not is_shown:
            self.screen.print(indent(event.for_model, 20), "dim")

    def _show_turn_end(self, event: events.TurnEnded) -> None:
        self._settle_thinking()
        if evidence := evidence_line(event):
            self.screen.print(evidence, "dim")
