"""What draws a conversation at a terminal, for plug-ins that show one."""

from kode.cli.prompt.changes import render_diffs as render_diffs
from kode.cli.screen.plain import read_key as read_key
from kode.cli.screen.question import make_ask as make_ask
from kode.cli.screen.question import question_lines as question_lines
from kode.cli.screen.render import Renderer as Renderer
from kode.cli.screen.screen import Screen as Screen
from kode.cli.screen.screen import open_screen as open_screen
from kode.interrupts import heeding as heeding
