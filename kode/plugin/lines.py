"""The lines and files that programs exchange with kode, as the types that they are read into."""

from kode.cli.commands.stream_input import LINE as LINE
from kode.results import *  # noqa: F403
from kode.subagents.protocol import Snapshot as Snapshot
from kode.subagents.protocol import Task as Task
