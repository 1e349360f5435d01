"""Findings of `kode doctor`, and the sandbox, for plug-ins that try what it holds."""

from kode.cli.commands.diagnosis import missing as missing
from kode.cli.commands.diagnosis import ok as ok
from kode.cli.commands.diagnosis import optional as optional
from kode.sandbox.sandbox import Sandbox as Sandbox
from kode.sandbox.sandbox import open_sandbox as open_sandbox
from kode.sandbox.shared import Shared as Shared
from kode.workplace import Workplace as Workplace
