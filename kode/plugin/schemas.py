"""The types of kode's files and lines, for plug-ins that describe them."""

from kode.cli.commands.stream_input import LINE as LINE
from kode.results import Result as Result
from kode.results import ResultLine as ResultLine
from kode.subagents.protocol import Snapshot as Snapshot
from kode.subagents.protocol import Task as Task
