"""What may be imported before a person sees something."""

import ast
import subprocess
import sys
from pathlib import Path

import kode

HEAVY = (
    "openai anthropic httpx2 pydantic numpy prompt_toolkit rich apsw selectolax pathspec "
    "tree_sitter snowballstemmer json_repair starlette uvicorn jinja2"
).split()


def imported_by(statement: str) -> set[str]:
    """The modules, and the packages that they are in."""
    code = f"import sys; sys.argv = ['kode']\n{statement}\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = done.stdout.splitlines()[-1].split()
    return {*names, *(name.partition(".")[0] for name in names)}


def test_version_imports_nothing_heavy_and_not_even_argparse() -> None:
    loaded = imported_by("sys.argv.append('--version'); from kode.__main__ import main; main()")
    assert not loaded & {*HEAVY, "argparse", "asyncio", "json"}


def test_help_imports_nothing_heavy() -> None:
    loaded = imported_by("sys.argv.append('--help'); from kode.__main__ import main; main()")
    assert not loaded & set(HEAVY)


def test_a_command_without_an_agent_loads_none() -> None:
    run = "sys.argv[1:] = words.split()\n    with contextlib.suppress(SystemExit): main()"
    loaded = imported_by(
        "import contextlib; from kode.__main__ import main\n"
        f"for words in {['session list', 'memory show', 'config show', 'run --help']}:\n    {run}"
    )
    agent = {f"kode.{name}" for name in ("conversation", "engine", "tools", "sandbox")}
    assert not loaded & {*agent, "openai", "prompt_toolkit"}
    assert "kode.cli.commands.memory" in loaded


def test_a_conversation_imports_no_sdk_and_no_terminal() -> None:
    loaded = imported_by("import kode.conversation, kode.tools.builtin, kode.providers")
    assert not loaded & {
        *("openai", "anthropic", "httpx2", "numpy", "prompt_toolkit", "rich"),
        *("selectolax", "pathspec", "tree_sitter", "apsw"),
    }


def test_types_of_an_sdk_load_when_asked_for() -> None:
    code = (
        "import sys\nfrom kode.providers.provider import *\ntypes = import_sdk('chat').types\n"
        "print('openai.types.batch' in sys.modules, types.Batch.__name__, hasattr(types, 'Bread'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False Batch False\n"


def test_the_repl_imports_nothing_heavy_before_the_prompt() -> None:
    cli = "kode.cli.prompt.repl, kode.cli.prompt.editor, kode.cli.screen.question"
    loaded = imported_by(f"import kode.conversation, {cli}")
    assert not loaded & {"openai", "anthropic", "httpx2", "numpy", "rich", "tree_sitter", "apsw"}


def test_code_inside_harbor_needs_only_the_standard_library() -> None:
    agent = Path(kode.__file__).parents[1] / "bench/harbor/agent.py"
    own = [
        ast.unparse(node)
        for node in ast.parse(agent.read_text()).body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(("bench", "kode"))
    ]
    assert own
    loaded = imported_by("import bench.harbor\n" + "\n".join(own))
    started_with = imported_by("pass")
    packages = {name.partition(".")[0] for name in loaded - started_with}
    assert packages <= {"bench", "kode", *sys.stdlib_module_names}


def test_a_client_is_answered_before_any_sdk_is_imported() -> None:
    commands = "kode.plugins.acp.server, kode.plugins.serve.command"
    loaded = imported_by(f"import kode.cli.main, {commands}")
    assert not loaded & {*HEAVY, "acp", "mcp", "mcp_types"}
