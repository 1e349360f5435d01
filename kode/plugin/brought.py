"""What a repository brings and a person approved, for plug-ins that show it and ask about it."""

from kode.assembly import open_sandbox as open_sandbox
from kode.assembly import open_workplace as open_workplace
from kode.cli.commands.trust import *  # noqa: F403
from kode.cli.screen.lines import public as public
from kode.cli.screen.printer import *  # noqa: F403
from kode.conversation.hooking import granted as granted
from kode.conversation.hooking import run_hook as run_hook
from kode.extensions import brought as brought
from kode.extensions import foreign as foreign
from kode.extensions import review as review
from kode.extensions import trust as trust
from kode.extensions.hook_answer import *  # noqa: F403
from kode.extensions.hook_input import *  # noqa: F403
from kode.extensions.hooks import EVENTS as EVENTS
from kode.extensions.listing import *  # noqa: F403
from kode.extensions.places import surroundings as surroundings
