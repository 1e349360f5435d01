"""MCP servers as they run, for plug-ins that reach one while a person waits."""

from kode.assembly import open_workplace as open_workplace
from kode.cli.screen.form import make_elicit as make_elicit
from kode.extensions.mcp_cache import DownloadNeededError as DownloadNeededError
from kode.extensions.mcp_open import opener as opener
from kode.extensions.mcp_server import held_back as held_back
from kode.extensions.mcp_server import keep_pins as keep_pins
from kode.extensions.mcp_server import pins_of as pins_of
from kode.extensions.mcp_values import Connection as Connection
