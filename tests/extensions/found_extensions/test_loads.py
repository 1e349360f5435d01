"""What an approved hook or server loads of the project is approved with it."""

import json
import shutil
from pathlib import Path
from typing import Any

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


def bring(world: World, way: str) -> Path:
    """A hook that runs code of another file in one of four ways; returns that file."""
    command, name, text = {
        "target": ("make hook", "Makefile", "hook:\n\t@true\n"),
        "sourced": (". scripts/rules.sh", "scripts/rules.sh", "true\n"),
        "imported": ("python3 scripts/check.py", "scripts/policy.py", "allowed = True\n"),
        "named": ("sh scripts/check.sh", "scripts/check.sh", "true\n"),
    }[way]
    world.write("scripts/check.py", "import policy\n")
    if way == "sourced":
        command = "sh run-checks"
        world.write("run-checks", ". ./scripts/rules.sh\n")
    file = world.write(name, text)
    hooks(world, ("PreToolUse", "*", command), file=SETTINGS)
    world.approve()
    return file


async def outcomes(talk: Conversation) -> list[str]:
    await talk.turn("look")
    return [run.outcome for run in runs(talk)]


def with_calls(count: int) -> list[dict[str, Any]]:
    return [*({"calls": [READ]} for _ in range(count)), DONE]


@pytest.mark.parametrize("way", ["target", "sourced", "imported", "named"])
async def test_a_change_of_what_a_hook_loads_blocks_it(
    world: World, opened: Open, way: str
) -> None:
    file = bring(world, way)
    talk = await opened(*with_calls(1), *with_calls(1))
    assert await outcomes(talk) == [""]
    file.write_text(file.read_text() + "\n# changed\n")
    assert await outcomes(talk) == ["", "deny"]
    assert world.find().hooks[0].standing == "changed"
    assert await outcomes(await opened(*with_calls(1))) == ["deny"]


async def test_a_change_before_the_first_run_counts(world: World, opened: Open) -> None:
    file = bring(world, "imported")
    talk = await opened(*with_calls(1))
    await talk.start()
    file.write_text("allowed = False\n")
    assert await outcomes(talk) == ["deny"]


async def test_a_module_that_hides_another_counts(world: World, opened: Open) -> None:
    bring(world, "imported")
    world.write("scripts/check.py", "import policy, colorsys\n")
    world.approve()
    talk = await opened(*with_calls(1), *with_calls(1), *with_calls(1))
    assert await outcomes(talk) == [""]
    file = world.write("scripts/colorsys.py", "\n")
    assert await outcomes(talk) == ["", "deny"]
    file.unlink()
    assert await outcomes(talk) == ["", "deny", ""]


async def test_the_files_a_call_is_about_are_no_pins(world: World, opened: Open) -> None:
    world.write("a.txt", "1\n")
    read = "import json, sys; open(json.load(sys.stdin)['tool_input']['path']).read()\n"
    world.write("check.py", f"try:\n  {read}except OSError:\n  pass\n")
    hooks(world, ("PreToolUse", "*", "python3 check.py"), file=SETTINGS)
    world.approve()
    call = {"name": "list_files", "arguments": {"path": "a.txt"}}
    talk = await opened({"calls": [call]}, DONE, {"calls": [call]}, DONE)
    assert await outcomes(talk) == [""]
    world.write("a.txt", "2\n")
    assert await outcomes(talk) == ["", ""]


async def test_other_hooks_may_read_what_changes(world: World, opened: Open) -> None:
    world.write("Makefile", "lint:\n\t@cat src.py\n")
    world.write("src.py", "1\n")
    hooks(world, ("PostToolUse", "*", "make lint"), file=SETTINGS)
    world.approve()
    talk = await opened(*with_calls(1), *with_calls(1))
    assert await outcomes(talk) == [""]
    world.write("src.py", "2\n")
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
