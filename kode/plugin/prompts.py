"""The prompt and a task's command line, for plug-ins that run them elsewhere."""

from kode.cli.commands.cassettes import *  # noqa: F403
from kode.cli.commands.opening import *  # noqa: F403
from kode.cli.commands.run import main as main
from kode.cli.commands.run import run_read_task as run_read_task
from kode.cli.commands.task import *  # noqa: F403
from kode.cli.flags import named_servers as named_servers
from kode.cli.parser import Described as Described
from kode.cli.screen.notify import *  # noqa: F403
from kode.conversation.opening import check_rules as check_rules
from kode.installed import asked as asked
