"""What an approved hook or server loads of the project is approved with it."""

import pytest

from kode.conversation import Conversation
from tests.extensions.found_extensions.conftest import Open, World
from tests.extensions.found_extensions.test_hook_moments import DONE, hooks, runs
from tests.needs import needs

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
