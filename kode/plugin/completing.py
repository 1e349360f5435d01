"""The commands, their parsers and the names that they take, for plug-ins that complete a command
line."""

from kode.cli.commands import interactive as interactive
from kode.cli.parser import COMMANDS as COMMANDS
from kode.cli.parser import Described as Described
from kode.cli.parser import of_plugins as of_plugins
from kode.cli.prompt.choices import model_choices as model_choices
from kode.cli.prompt.choices import session_choices as session_choices
from kode.extensions.mcp_config import find_servers as find_servers
from kode.extensions.review import find_items as find_items
from kode.extensions.review import named as named
from kode.installed import subcommands as subcommands
from kode.registry import SYSTEMS as SYSTEMS
from kode.registry import provider_names as provider_names
