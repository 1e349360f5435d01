"""What the REPL cannot do is said before it opens."""

import pytest

from kode.cli.commands.opening import open_repl
from kode.cli.flags import add_conversation_flags
from kode.cli.parser import Parser
from kode.errors import ConfigError


@pytest.mark.parametrize(
    "flags", [["--json-schema", "bug.json"], ["--input-format", "stream-json"]]
)
def test_flags_of_a_task_are_refused_at_the_prompt(flags: list[str]) -> None:
    parser = Parser("kode", "")
    add_conversation_flags(parser)
    with pytest.raises(ConfigError, match="are for tasks: `kode run TASK`"):
        open_repl(parser.parse(flags), None, None)
