"""The layout of the prompt, from top to bottom: live lines, input line, menu and status line, with
their styles. `editor` implements the behaviour."""

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "question": "bold",
        "dim": "dim",
        "queued": "italic dim",
        "toolbar": "dim",
        "danger": "bold ansired",
        "completion-menu": "noreverse bg:default fg:default",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "bg:default fg:default dim",
        "completion-menu.meta.completion.current": "bg:default fg:default dim",
    }
)
PLAIN_STYLE = Style.from_dict(
    {
        "danger": "bold",
        "completion-menu": "noreverse",
        "completion-menu.completion": "noreverse",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "noreverse",
        "completion-menu.meta.completion.current": "noreverse",
    }
)

MAX_INPUT_ROWS = 12  # half of a terminal with 24 rows

Lines = Callable[[int, int], list[tuple[str, str]]]
"""(style, line) for a width and a height."""


def layout_of(
    buffer: Buffer,
    *,
    size: Callable[[], Size],
    live: Lines,
    status: Callable[[int], list[tuple[str, str]]],
    mark: Callable[[], tuple[str, str]],
    menu: Callable[[int, int], list[str]],
) -> Layout:
    """The parts of the prompt, stacked. `mark` is (style, text) before the input; `menu` returns
    painted lines for a width and a height while a menu is open."""

    def columns_and_rows() -> tuple[int, int]:
        terminal = size()
        return max(terminal.columns, 10), max(terminal.rows, 4)

    def live_lines() -> list[tuple[str, str]]:
        columns, height = columns_and_rows()
        # One column stays free: a full last column makes some terminals wrap.
        return live(columns - 1, max(height - 6, 2))

    def live_fragments() -> StyleAndTextTuples:
        lines = live_lines()
        return [
            (f"class:{style}" if style else "", line + ("\n" if number < len(lines) else ""))
            for number, (style, line) in enumerate(lines, 1)
        ]

    def menu_lines() -> list[str]:
        columns, height = columns_and_rows()
        return menu(columns - 1, max(height - 4, 4))

    def status_fragments() -> StyleAndTextTuples:
        parts = status(columns_and_rows()[0] - 1)
        return [(f"class:{style or 'toolbar'}", text) for style, text in parts]

    def input_height() -> Dimension:
        return Dimension(min=1, max=min(MAX_INPUT_ROWS, max(columns_and_rows()[1] - 4, 1)))

    def line_prefix(line: int, wrapped: int) -> StyleAndTextTuples:
        style, text = mark()
        return [(style, text if not line + wrapped else "  ")]

    search = SearchToolbar(
        backward_search_prompt="history: ", forward_search_prompt="history, newer: "
    )
    above = Window(FormattedTextControl(live_fragments), wrap_lines=False, dont_extend_height=True)
    choices = Window(
        FormattedTextControl(lambda: ANSI("\n".join(menu_lines()))),
        wrap_lines=False,
        dont_extend_height=True,
    )
    line = Window(
        BufferControl(buffer, search_buffer_control=search.control, preview_search=True),
        height=input_height,
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=line_prefix,
    )
    toolbar = Window(FormattedTextControl(status_fragments), height=1)
    container = HSplit(
        [
            ConditionalContainer(above, Condition(lambda: bool(live_lines()))),
            ConditionalContainer(choices, Condition(lambda: bool(menu_lines()))),
            line,
            search,
            CompletionsMenu(max_height=8, scroll_offset=1),
            ConditionalContainer(toolbar, ~has_completions),
        ],
        align=VerticalAlign.TOP,
    )
    return Layout(container, focused_element=line)
