"""`import kode` costs next to nothing, and offers what it says."""

import ast
import subprocess
import sys

import kode
from kode import api


def test_importing_kode_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import kode; print(set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == {"kode"}


def test_every_public_name_exists_and_has_a_docstring() -> None:
    assert set(kode.__all__) == {*api.__all__, "errors", "events"}
    assert all(getattr(kode, name) is not None for name in kode.__all__)
    members = [kode.open, kode.Conversation, *vars(kode.Conversation).values()]
    for member in members:
        if callable(member) and not getattr(member, "__name__", "_").startswith("_"):
            assert member.__doc__, member


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(kode, "no_such_thing")
