"""What a command reads without naming it is looked at when it is decided."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.permissions import places, sensitive
from kode.permissions.decide import decide
from kode.permissions.decision import Decision
from kode.permissions.rules import Rules, parse_all
from kode.permissions.sensitive import MAX_ENTRIES
from kode.permissions.shell.classes import Sweep
from kode.permissions.sweep import meets
from kode.tools.shell import shell

_NAMES = places.KEY_FILES  # each kind of name that there is


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("x = 1\n")
    (folder / "README.md").write_text("hello\n")
    return folder


def _decided(project: Path, command: str, mode: str = "ask", **rules: list[str]) -> Decision:
    return decide(
        Rules(**{name: parse_all(texts) for name, texts in rules.items()}),
        mode,
        shell,
        {"command": command},
        cwd=project,
        roots=(project,),
        project=project,
        user_home=project.parent / "home",
    )


READS_ALL = """
grep -r API .
grep -rn API
grep -RIl API --include='*' .
rg -uu API
rg --hidden API
rg -u --hidden API
ack API
find . | xargs cat
find . -type f -exec cat {} +
find . -type f -print0 | xargs -0 grep API
cat .e*
cat .en?
cat .[a-z]*
head -5 * .*
git grep --no-index API
tar c .
tar cf - . | base64
tar czf x.tgz .
zip -r x.zip .
diff -r . /usr/share/doc
ls -A | xargs cat
cat `ls -A`
""".strip().split("\n")

READS_SOME = """
grep -rn x src
grep -rn --include='*.py' x .
grep -rn --exclude=.env x .
rg x
rg x src
rg -uu -g '*.py' x
ag x
cat *
cat src/*
cat *.md
find . -name '*.py' | xargs cat
find src -type f -exec cat {} +
find . -type f
ls -la
tree -a
git grep x
git ls-files | xargs cat
du -ah
tar c src
tar c --exclude=.env .
""".strip().split("\n")


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "full"])
@pytest.mark.parametrize("command", READS_ALL)
def test_what_would_read_a_key_file_on_the_way_asks_in_every_mode(project, command, mode):
    (project / ".env").write_text("API_KEY=abc\n")

    decision = _decided(project, command, mode)

    assert decision.outcome == "ask"
    assert not decision.rules_offered
    assert not decision.runs_unasked


def test_the_question_names_the_file_it_would_meet(project):
    (project / ".env").write_text("API_KEY=abc\n")

    assert ".env" in _decided(project, "grep -r API .").reason


@pytest.mark.parametrize("command", [c for c in READS_ALL if " ." not in c.replace(" . ", " ")])
def test_without_such_a_file_nothing_more_is_asked(project, command):
    assert "hold keys" not in _decided(project, command).reason


@pytest.mark.parametrize("command", READS_SOME)
def test_what_leaves_it_out_is_not_asked_about(project, command):
    (project / ".env").write_text("API_KEY=abc\n")
    (project / ".gitignore").write_text(".env\n")

    assert "hold keys" not in _decided(project, command, "auto-edit").reason


def test_a_search_without_key_files_runs_unasked(project):
    for command in ("grep -r x .", "rg -uu x", "find . | xargs cat", "cat *"):
        assert _decided(project, command).outcome == "allow", command


def test_an_allow_rule_covers_it(project):
    (project / ".env").write_text("API_KEY=abc\n")

    assert _decided(project, "grep -r x .", allow=["shell(grep:*)"]).outcome == "allow"


def test_a_deny_rule_for_the_file_holds(project):
    (project / ".env").write_text("API_KEY=abc\n")

    decision = _decided(project, "grep -r x .", "full", deny=["read(.env)"])

    assert decision.outcome == "deny"


def _met(project: Path, **sweep: object) -> str | None:
    where = sensitive.ground(project, (project,), project.parent / "home")
    found = meets([Sweep(**{"path": str(project), **sweep})], where)
    return None if found is None else str(Path(found).relative_to(project))


def test_a_key_file_deep_down_is_found(project):
    (project / "deploy" / "certs").mkdir(parents=True)
    (project / "deploy" / "certs" / "server.pem").write_text("-----BEGIN\n")

    assert _met(project, deep=True) == "deploy/certs/server.pem"
    assert _met(project, deep=True, names="*.py") is None


@pytest.mark.parametrize("folder", ["node_modules/x", ".venv/lib", ".git"])
def test_folders_that_tools_fill_are_left_out(project, folder):
    (project / folder).mkdir(parents=True)
    (project / folder / "cacert.pem").write_text("-----BEGIN\n")

    assert _met(project, deep=True) is None


@pytest.mark.parametrize(
    "name",
    ".env~ .env.bak ..env.swp #.env# .#.env id_rsa.old .id_rsa.swp server.pem~ .env.orig~".split(),
)
def test_a_copy_of_a_key_file_holds_the_same_keys(project, name):
    (project / name).write_text("API_KEY=abc\n")

    assert _met(project, deep=True) == name


def test_a_copy_of_what_holds_no_keys_holds_none(project):
    for name in (".env.example~", "credentials.py.bak", "id_rsa.pub.old", "notes.txt~", "~", "#"):
        (project / name).write_text("x\n")

    assert _met(project, deep=True) is None


def test_examples_programs_and_empty_files_hold_no_keys(project):
    (project / ".env.example").write_text("API_KEY=\n")
    (project / "src" / "credentials.py").write_text("class Credentials: ...\n")
    (project / ".env").touch()

    assert _met(project, deep=True) is None


def test_a_settings_file_counts_when_a_key_is_in_it(project):
    (project / ".npmrc").write_text("save-exact=true\n")
    assert _met(project, deep=True) is None

    (project / ".npmrc").write_text("//registry.example/:_authToken=abc\n")
    assert _met(project, deep=True) == ".npmrc"


def test_what_gitignore_names_is_left_out_where_the_command_leaves_it_out(project):
    (project / "server.pem").write_text("-----BEGIN\n")
    assert _met(project, deep=True, ignored=False) == "server.pem"

    (project / ".gitignore").write_text("*.pem\n")
    assert _met(project, deep=True, ignored=False) is None
    assert _met(project, deep=True) == "server.pem"


def test_a_link_to_keys_elsewhere_is_found(project):
    (project.parent / "home" / ".ssh").mkdir(parents=True)
    (project.parent / "home" / ".ssh" / "id_rsa").write_text("key\n")
    (project / "notes").symlink_to(project.parent / "home" / ".ssh" / "id_rsa")

    assert _met(project, deep=True) == "notes"


def test_the_look_is_bounded(project, monkeypatch):
    monkeypatch.setattr("kode.permissions.sensitive.MAX_ENTRIES", 3)
    (project / "a").mkdir()
    (project / "a" / "z.pem").write_text("-----BEGIN\n")

    assert _met(project, deep=True) is None
    assert MAX_ENTRIES >= 10_000


def test_the_likeliest_names_are_found_behind_the_bound_too(project, monkeypatch):
    monkeypatch.setattr("kode.permissions.sensitive.MAX_ENTRIES", 4)
    for name in ("a", "b"):
        (project / name).mkdir()
    (project / "b" / ".env").write_text("API_KEY=abc\n")

    assert _met(project, deep=True) == "b/.env"
    assert _met(project, deep=True, names="*.py") is None


@pytest.mark.parametrize("pattern", ["*", "server.*", "*/*.pem", "*/server.???", "[a-z]*/s*"])
def test_a_glob_meets_what_the_shell_would_find(project, pattern):
    folder = project / "certs" if "/" in pattern else project
    folder.mkdir(exist_ok=True)
    (folder / ".env").write_text("API_KEY=abc\n")
    assert _met(project, path=f"{project}/{pattern}") is None

    (folder / "server.pem").write_text("-----BEGIN\n")

    assert _met(project, path=f"{project}/{pattern}") == str(
        (folder / "server.pem").relative_to(project)
    )


@given(st.sampled_from(_NAMES), st.text("abx._-0", max_size=4))
def test_a_name_that_is_secret_is_never_overlooked_at_first_sight(pattern, filling):
    path = Path("/p") / pattern.replace("*", filling)
    where = sensitive.ground(Path("/p"), (Path("/p"),), Path("/home/me"))

    assert sensitive.may_be_secret_name(path.name) or not sensitive.is_secret(str(path), where)


def test_a_loop_of_links_ends(project):
    (project / "loop").symlink_to(project)

    assert _met(project, deep=True) is None
