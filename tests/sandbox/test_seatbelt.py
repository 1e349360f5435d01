"""The profile for macOS, which no machine here enforces: its rules are read as Seatbelt documents
them, the last one that matches deciding."""

import os
import re
import stat
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.sandbox import seatbelt
from kode.sandbox.reach import Access, Grants, Place, Reach
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import find_fault
from tests.sandbox.sandboxed import ran
from tests.tables import for_each
from tests.workplaces import workplace

TOKEN = re.compile(r'\s*(?:(\(|\))|#?"((?:[^"\\]|\\.)*)"|([^\s()"]+))')


def parsed(text: str) -> list[Any]:
    """The expressions of a profile, as nested lists of words."""
    stack: list[list[Any]] = [[]]
    at = 0
    while match := TOKEN.match(text, at):
        at = match.end()
        if match[1] == "(":
            stack.append([])
        elif match[1] == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(match[2] if match[2] is not None else match[3])
    assert not text[at:].strip()
    assert len(stack) == 1
    return stack[0]


@dataclass(frozen=True)
class Rules:
    """A profile that answers what it allows."""

    rules: list[Any]
    parameters: dict[str, str]

    def allows(self, operation: str, path: str) -> bool:
        allowed = False
        for verb, *rest in self.rules:
            operations = [word for word in rest if isinstance(word, str)]
            filters = [one for one in rest if isinstance(one, list)]
            if verb not in ("allow", "deny") or not any(covers(o, operation) for o in operations):
                continue
            if not filters or any(self.matches(one, path) for one in filters):
                allowed = verb == "allow"
        return allowed

    def matches(self, condition: list[Any], path: str) -> bool:
        kind, *values = condition
        if kind in ("remote", "local"):
            return values == ["ip", "*:*"] and not path.startswith("/")
        if kind == "require-all":
            return all(self.matches(one, path) for one in values)
        value = self.parameters[values[0][1]] if isinstance(values[0], list) else values[0]
        if kind == "regex":
            return re.search(value, path) is not None
        if kind == "literal":
            return path == value
        return kind == "subpath" and (path == value or path.startswith(value.rstrip("/") + "/"))

    def reads(self, path: str) -> bool:
        return self.allows("file-read-data", path)

    def writes(self, path: str) -> bool:
        ways = ("data", "create", "unlink", "mode", "xattr", "owner", "flags", "times")
        return any(self.allows(f"file-write-{way}", path) for way in ways)


def covers(rule: str, operation: str) -> bool:
    return rule in (operation, "default") or (
        rule.endswith("*") and operation.startswith(rule.removesuffix("*"))
    )


def rules_of(reaching: Reach) -> Rules:
    text, parameters = seatbelt.profile(reaching)
    return Rules(parsed(text), parameters)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in (".ssh", ".kode", "work/sub", "work/.git", ".local/bin"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def opened(home: Path, *, writable: bool = False, network: bool = False) -> Sandbox:
    place = workplace(home / "work", home=home / ".kode")
    return Sandbox(place=place, grants=Grants(network=network, project=writable))


def rules(home: Path, *, writable: bool = False, network: bool = False) -> Rules:
    made = opened(home, writable=writable, network=network).reach("seatbelt")
    made = replace(made, temporary=str(home / ".kode/sandbox/tmp"))
    return rules_of(made.hide([home / "work/sub/.env"]))


GIT = (
    "work/.git/config work/.git/hooks/post-commit work/.git/HOOKS/x work/.git/modules/a/config "
    "work/.GIT/Config work/sub/.git/hooks/x work/sub/.git/hoo\u212as/x work/.git work/sub/.git "
    "work/.git/worktrees/a/commondir"
)
RECORDS = "work/.git/objects/ab/cdef work/.git/index.lock work/.git/refs/heads/main work/.git/HEAD"


@for_each(
    ("writable", "operation", "paths", "allowed"),
    [
        (False, "write", ".kode/sandbox/tmp/x", True),
        (False, "write", "/ /tmp/x /private/tmp/x x work/x work/sub/.env /etc/hosts", False),
        (True, "write", f"work/x {RECORDS}", True),
        (True, "write", "work/sub/.env", False),
        (False, "read", "work work/a/b work/sub/other .local/bin/tool .kode/sandbox/tmp/x", True),
        (False, "read", "/usr/bin/env", True),
        (False, "read", ".ssh/id .kode/config.json .kode notes Library/Keychains/x .", False),
        *((writable, "read", "work/sub/.env", False) for writable in (False, True)),
        (True, "read", "work/sub/other", True),
        # Folders above what is shown only exist, and none can be moved away.
        (False, "file-read-metadata", ".", True),
        (False, "file-read-metadata", ".ssh", False),
        (True, "file-write-unlink", "work work/sub work/.git", False),
        (True, "file-write-unlink", "work/sub/other", True),
        *((True, f"file-write-{way}", GIT, False) for way in ("create", "data", "unlink")),
        *((False, name, "/", False) for name in ("file-link", "file-mount", "appleevent-send")),
        *((False, name, "/", False) for name in ("job-creation", "mach-register")),
    ],
)
def test_a_profile_allows_what_is_listed_and_nothing_else(
    home: Path, writable: bool, operation: str, paths: str, allowed: bool
) -> None:
    made = rules(home, writable=writable)
    assert made.rules[:2] == [["version", "1"], ["deny", "default"]]
    for path in (str(home / name) for name in paths.split()):
        if operation in ("read", "write"):
            assert (made.reads(path) if operation == "read" else made.writes(path)) is allowed, path
        else:
            assert made.allows(operation, path) is allowed, path


def test_the_network_is_allowed_only_where_the_settings_say_so(home: Path) -> None:
    for operation in ("network-outbound", "network-bind", "network-inbound"):
        assert not rules(home).allows(operation, "localhost:80")
        assert rules(home, network=True).allows(operation, "localhost:80")
        for network in (False, True):
            for path in ("/var/run/docker.sock", f"{home}/work/agent", "/private/tmp/x"):
                assert not rules(home, network=network).allows(operation, path)


def test_no_service_of_keys_or_other_programs_is_allowed(home: Path) -> None:
    named = {
        one[1]
        for network in (False, True)
        for rule in rules(home, network=network).rules
        for one in rule[2:]
        if "mach-lookup" in rule
    }
    assert named
    assert not [one for one in named if re.search("(?i)secur|pasteboard|launch|event|cfpref", one)]
    assert ["allow", "mach-lookup"] not in rules(home).rules


def test_arguments_of_other_processes_are_not_among_the_readable_settings(home: Path) -> None:
    names = [one for rule in rules(home).rules if "sysctl-read" in rule for one in rule[2:]]
    assert names
    for kind, name in names:
        assert not (name if kind == "sysctl-name" else name + ".").startswith("kern.proc")
        assert kind == "sysctl-name" or not "kern.procargs2".startswith(name)


names = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: Path("/", *parts))
places = st.builds(
    Place, path=paths, access=st.sampled_from(["readable", "writable", "empty", "hidden"])
)


@given(st.lists(places, max_size=8), paths, paths)
def test_the_last_place_decides_whatever_the_names(
    listed: list[Place], temporary: Path, path: Path
) -> None:
    made = rules_of(Reach(places=tuple(listed), temporary=str(temporary), network="none"))
    last = next((one for one in reversed(listed) if path.is_relative_to(one.path)), None)
    if path.is_relative_to("/dev"):
        return
    if path.is_relative_to(temporary):
        assert made.reads(str(path))
        return
    assert made.reads(str(path)) == (last is not None and last.access in ("readable", "writable"))
    if made.writes(str(path)):
        assert last is not None
        assert last.access == "writable"


@given(st.lists(names, max_size=3), st.sampled_from(["readable", "writable", "hidden"]))
def test_no_path_is_part_of_the_program_text(parts: list[str], access: Access) -> None:
    path = Path("/quokka", *parts, '") (allow default) ("')
    made = Reach(places=(Place(path, access),), temporary="/quokka", network="none")
    assert "quokka" not in seatbelt.profile(made)[0]
    assert f"P0={path}" in seatbelt.command(made)


@pytest.fixture
def on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that says it is a Mac, whose `sandbox-exec` limits nothing."""
    program = tmp_path / "sandbox-exec"
    program.write_text(
        '#!/bin/sh\n[ "$1" = -p ] || exit 64\nshift 2\n'
        'while [ "$1" = -D ]; do shift 2; done\nexec "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for module in ("sandbox", "seatbelt"):
        monkeypatch.setattr(f"kode.sandbox.{module}.SEATBELT", str(program))
    monkeypatch.setattr(sys, "platform", "darwin")
    return program


def test_a_program_that_limits_nothing_fails_the_self_test(home: Path, on_macos: Path) -> None:
    (home / ".kode" / "config.json").write_text("{}")
    fault = find_fault(opened(home), "seatbelt")
    for leak in (f"reads {home}/.kode/config.json", f"writes {home}/work", "has a network"):
        assert leak in fault
    assert opened(home).support().kind == "none"


def test_a_command_gets_the_private_folder_without_sockets(
    home: Path, on_macos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    made = opened(home)
    attempt = made.begin(kind="seatbelt")
    command = 'echo "$TMPDIR:$SSH_AUTH_SOCK"; rm /nowhere; echo EPERM: Operation not permitted'
    done = ran(attempt.wrap(("/bin/sh", "-c", command)), home / "work", dict(os.environ))
    assert done.out.splitlines()[0] == f"{made.temporary_folder()}:"
    assert attempt.ended.is_set()
    assert attempt.blocked(done.out)
    assert not attempt.blocked(done.err)
