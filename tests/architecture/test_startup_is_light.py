"""What may be imported before a person sees something."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import kode

HEAVY = (
    "openai anthropic httpx2 pydantic numpy prompt_toolkit rich apsw selectolax pathspec "
    "tree_sitter snowballstemmer json_repair starlette uvicorn jinja2"
).split()
MAIN = "from kode.__main__ import main"
STEPS = {
    "version": f"sys.argv[1:] = ['--version']; {MAIN}; main()",
    "help": "sys.argv[1:] = ['--help']; main()",
    "client": "import kode.cli.main, kode.plugins.acp.server, kode.plugins.serve.command",
    "conversation": "import kode.conversation, kode.tools.builtin, kode.providers",
    "repl": "import kode.cli.prompt.repl, kode.cli.prompt.editor, kode.cli.screen.question",
    "sdk": "from kode.providers.provider import *; types = import_sdk('chat').types",
    "type": "assert types.Batch.__name__ == 'Batch' and not hasattr(types, 'Bread')",
}
"""What one interpreter does after another, the lightest first."""


def imported_by(*statements: str) -> list[set[str]]:
    """After each statement: the modules, and the packages that they are in."""
    code = "import sys; sys.argv = ['kode']\n"
    code += "\n".join(f"{it}\nprint('\\n=' + ' '.join(sys.modules))" for it in statements)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [line[1:].split() for line in done.stdout.splitlines() if line.startswith("=")]
    return [{*names, *(name.partition(".")[0] for name in names)} for names in lines]


@cache
def imported_after() -> dict[str, set[str]]:
    return dict(zip(STEPS, imported_by(*STEPS.values()), strict=True))


def test_version_imports_nothing_heavy_and_not_even_argparse() -> None:
    assert not imported_after()["version"] & {*HEAVY, "argparse", "asyncio", "json"}


def test_help_imports_nothing_heavy() -> None:
    assert not imported_after()["help"] & set(HEAVY)


def test_a_client_is_answered_before_any_sdk_is_imported() -> None:
    assert not imported_after()["client"] & {*HEAVY, "acp", "mcp", "mcp_types"}


def test_a_conversation_imports_no_sdk_and_no_terminal() -> None:
    assert not imported_after()["conversation"] & {
        *("openai", "anthropic", "httpx2", "numpy", "prompt_toolkit", "rich"),
        *("selectolax", "pathspec", "tree_sitter", "apsw"),
    }


def test_the_repl_imports_nothing_heavy_before_the_prompt() -> None:
    heavy = {"openai", "anthropic", "httpx2", "numpy", "rich", "tree_sitter", "apsw"}
    assert not imported_after()["repl"] & heavy


def test_types_of_an_sdk_load_when_asked_for() -> None:
    assert "openai" in imported_after()["sdk"]
    assert "openai.types.batch" in imported_after()["type"] - imported_after()["sdk"]


def test_a_command_without_an_agent_loads_none() -> None:
    run = "sys.argv[1:] = words.split()\n    with contextlib.suppress(SystemExit): main()"
    (loaded,) = imported_by(
        f"import contextlib; {MAIN}\n"
        f"for words in {['session list', 'memory show', 'config show', 'run --help']}:\n    {run}"
    )
    agent = {f"kode.{name}" for name in ("conversation", "engine", "tools", "sandbox")}
    assert not loaded & {*agent, "openai", "prompt_toolkit", "pydantic"}
    assert "kode.cli.commands.memory" in loaded


def test_code_inside_harbor_needs_only_the_standard_library() -> None:
    agent = Path(kode.__file__).parents[1] / "bench/harbor/agent.py"
    own = [
        ast.unparse(node)
        for node in ast.parse(agent.read_text()).body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(("bench", "kode"))
    ]
    assert own
    started_with, loaded = imported_by("pass", "import bench.harbor\n" + "\n".join(own))
    packages = {name.partition(".")[0] for name in loaded - started_with}
    assert packages <= {"bench", "kode", *sys.stdlib_module_names}
