"""What draws a conversation at a terminal, for plug-ins that show one."""

from kode.cli.prompt.changes import render_diffs as render_diffs
from kode.cli.prompt.repl import asking as asking
from kode.cli.prompt.state import PromptState as PromptState
from kode.cli.prompt.submit import start as start
from kode.cli.screen.menu import Choice as Choice
from kode.cli.screen.menu import Menu as Menu
from kode.cli.screen.question import make_ask as make_ask
from kode.cli.screen.question import question_lines as question_lines
from kode.cli.screen.render import Renderer as Renderer
from kode.cli.screen.screen import Screen as Screen
from kode.cli.screen.screen import open_screen as open_screen
from kode.interrupts import heeding as heeding
