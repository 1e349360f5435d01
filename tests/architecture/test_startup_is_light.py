"""What may be imported before a person sees something."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kode

HEAVY = (
    "openai anthropic httpx2 pydantic numpy prompt_toolkit rich apsw selectolax pathspec "
    "tree_sitter snowballstemmer json_repair starlette uvicorn jinja2"
).split()


def imported_by(statement: str) -> set[str]:
    code = f"import sys; sys.argv = ['kode']\n{statement}\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_version_imports_nothing_heavy_and_not_even_argparse() -> None:
    loaded = imported_by("sys.argv.append('--version'); from kode.__main__ import main; main()")
    assert not loaded & {*HEAVY, "argparse", "asyncio", "json"}


def test_help_imports_nothing_heavy() -> None:
    loaded = imported_by("sys.argv.append('--help'); from kode.__main__ import main; main()")
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("words", ["run --help", "session list", "memory show", "config show"])
def test_a_command_without_an_agent_loads_none(words: str) -> None:
    run = f"sys.argv += {words.split()}; from kode.__main__ import main; main()"
    packages = "kode.conversation, kode.engine, kode.tools, kode.sandbox, openai, prompt_toolkit"
    code = f"import sys; sys.argv = ['kode']\n{run}\nprint(sys.modules.keys() & {{*names}})"
    names = f"names = {packages.split(', ')}\n"
    done = subprocess.run(
        [sys.executable, "-c", names + code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_conversation_imports_no_sdk_and_no_terminal() -> None:
    loaded = imported_by("import kode.conversation, kode.tools.builtin, kode.providers")
    assert not loaded & {
        *("openai", "anthropic", "httpx2", "numpy", "prompt_toolkit", "rich"),
        *("selectolax", "pathspec", "tree_sitter", "apsw"),
    }


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
    assert loaded - started_with <= {"bench", "kode", *sys.stdlib_module_names}


def test_a_client_is_answered_before_any_sdk_is_imported() -> None:
    commands = "kode.plugins.acp.server, kode.plugins.serve.command"
    loaded = imported_by(f"import kode.cli.main, {commands}")
    assert not loaded & {*HEAVY, "acp", "mcp", "mcp_types"}
