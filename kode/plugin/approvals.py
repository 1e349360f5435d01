"""What a person approved of extensions, for plug-ins that show it and ask about it."""

from kode.cli.commands.trust import approve_shown as approve_shown
from kode.cli.screen.lines import public as public
from kode.extensions import mcp_cache as mcp_cache
from kode.extensions import review as review
from kode.extensions import trust as trust
