"""What an approved hook or server loads of the project is approved with it."""

import json
import shutil

import pytest

from kode.conversation import Conversation
from kode.errors import ConfigError
from kode.extensions import mcp_config, trust
from kode.extensions.mcp_server import opener
from tests.extensions.conftest import SERVERS
from tests.extensions.found_extensions.conftest import Open, World
from tests.extensions.found_extensions.test_hook_moments import DONE, hooks, runs
from tests.needs import PLAIN_PYTHON, needs
from tests.workplaces import workplace

pytestmark = [pytest.mark.slow, needs("bwrap")]

SETTINGS = ".claude/settings.json"
READ = {"name": "list_files", "arguments": {"path": "."}}


FILES = {
    "Makefile": "hook:\n\t@true\nlint:\n\t@cat a.txt\n",
    "run-checks": ". ./scripts/rules.sh\n",
    "scripts/rules.sh": "true\n",
    "scripts/check.py": "import policy, colorsys\n",
    "scripts/policy.py": "allowed = True\n",
    "scripts/check.sh": "true\n",
    "read.py": "import json, sys; open(json.load(sys.stdin)['tool_input']['path']).read()\n",
    "a.txt": "1\n",
}


def bring(world: World, command: str, event: str = "PreToolUse") -> None:
    for name, text in FILES.items():
        world.write(name, text)
    hooks(world, (event, "*", command), file=SETTINGS)
    world.approve()


async def outcomes(talk: Conversation) -> list[str]:
    await talk.turn("look")
    return [run.outcome for run in runs(talk)]


LOOK = ({"calls": [READ]}, DONE)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("make hook", "Makefile"),
        ("sh run-checks", "scripts/rules.sh"),
        ("python3 scripts/check.py", "scripts/policy.py"),
        ("sh scripts/check.sh", "scripts/check.sh"),
    ],
)
async def test_a_change_of_what_a_hook_loads_blocks_it(
    world: World, opened: Open, command: str, file: str
) -> None:
    bring(world, command)
    talk, early = await opened(*LOOK, *LOOK), await opened(*LOOK)
    await early.start()
    assert await outcomes(talk) == [""]
    world.write(file, f"{FILES[file]}\n# changed\n")
    for changed in (early, await opened(*LOOK)):
        assert await outcomes(changed) == ["deny"]
    assert await outcomes(talk) == ["", "deny"]
    assert world.find().hooks[0].standing == "changed"


async def test_a_module_that_hides_another_counts(world: World, opened: Open) -> None:
    bring(world, "python3 scripts/check.py")
    talk = await opened(*LOOK, *LOOK, *LOOK)
    assert await outcomes(talk) == [""]
    file = world.write("scripts/colorsys.py", "\n")
    assert await outcomes(talk) == ["", "deny"]
    file.unlink()
    assert await outcomes(talk) == ["", "deny", ""]


@pytest.mark.parametrize(
    ("event", "command", "path"),
    [("PreToolUse", "python3 read.py", "a.txt"), ("PostToolUse", "make lint", ".")],
)
async def test_the_files_that_a_hook_judges_are_no_pins(
    world: World, opened: Open, event: str, command: str, path: str
) -> None:
    bring(world, command, event)
    call = {"calls": [{"name": "list_files", "arguments": {"path": path}}]}
    talk = await opened(call, DONE, call, DONE)
    assert await outcomes(talk) == [""]
    world.write("a.txt", "2\n")
    assert await outcomes(talk) == ["", ""]


async def test_a_change_of_what_a_server_loads_keeps_it_off(world: World) -> None:
    shutil.copy(SERVERS / "reaching.py", world.project / "real.py")
    file = world.write("env.sh", "true\n")
    world.write("start", f". ./env.sh\nexec {PLAIN_PYTHON} real.py\n")
    command = {"command": "sh", "args": ["start"]}
    world.write(".mcp.json", json.dumps({"mcpServers": {"one": command}}))
    world.approve()
    (entry,) = mcp_config.find_servers(world.home, world.project).entries
    open_entry = opener(workplace(world.project, home=world.home), sandboxed=True)

    async def starts() -> bool:
        try:
            async with open_entry(entry):
                return True
        except ConfigError:
            return False

    assert await starts()
    file.write_text(file.read_text() + "\n#\n")
    assert not await starts()
    approvals = trust.load(world.home, world.project)
    assert trust.state(entry.item, approvals) == "changed"
    assert file.name in trust.diff(entry.item, approvals)
    trust.approve(world.home, world.project, [entry.item])
    assert await starts()
