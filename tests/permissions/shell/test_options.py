"""Options that do more than they seem, and values that look like options."""

from pathlib import Path

import pytest

from kode.permissions.shell import classify


def _class(command, cwd=Path("/home/user/project")):
    return classify(command, cwd=cwd, roots=(cwd,), home=Path("/home/user")).klass


@pytest.mark.parametrize(
    ("command", "klass"),
    [
        # a value is no option that makes it milder
        ("git clean -fdxe.venv", "destructive"),
        ("git clean -fdx -enode_modules", "destructive"),
        ("git clean -e -n -f", "destructive"),
        ("git clean -n --no-dry-run -f", "destructive"),
        ("git clean -fdn", "safe"),
        ("git restore -sSTABLE a.py", "destructive"),
        ("git restore -S a.py", "write"),
        ("git tag v1 -mnotes", "write"),
        ("git branch -v x HEAD", "write"),
        ("git branch -vv", "safe"),
        ("kill -KILL 1234", "system"),
        ("kill -l", "safe"),
        ("crontab -ulola jobs", "system"),
        ("unzip -dlib a.zip", "write"),
        ("unzip -l a.zip", "safe"),
        ("tar -xfdata.tar", "write"),
        ("tar -xf a.tar -Ctest", "write"),
        ("tar --list --file=a.tar", "safe"),
        ("tar tf a.tar", "safe"),
        # an option without a value does not hide the file behind it
        ("hexdump -C .env", "system"),
        ("column -t .env", "system"),
        ("grep -T KEY .env", "system"),
        ("look -d KEY .env", "system"),
        ("rg --type py KEY .env", "system"),
        ("rg --type=py KEY .env", "system"),
        ("rg --file=.env x", "system"),
        ("rg --files src", "safe"),
        ("ag -t KEY .env", "system"),
        ("ack -r KEY .env", "system"),
        ("jq --tab . server.key", "system"),
        ("touch -m ~/.bashrc", "system"),
        # files that options read
        ("date -f .env", "system"),
        ("date --file=.env", "system"),
        ("git blame --contents=.env a", "system"),
        ("awk 'BEGIN{ARGV[ARGC++]=\".env\"} {print}'", "system"),
        ("ps aux e", "system"),
        ("hexdump -f .env a.bin", "system"),
        ("git archive --add-file=.env HEAD", "system"),
        ("git checkout-index --prefix=/home/user/bin/ a.py", "system"),
        ("pip freeze -r .env", "system"),
        ("file -d a.bin", "unknown"),
        ("whatis -C x.conf ls", "unknown"),
        ("lz4cat --rm a.lz4", "unknown"),
        # programs that options run
        ("nm @options.txt", "unknown"),
        ("cloc --vcs=./list .", "unknown"),
        ("cloc --by-file src", "safe"),
        ("rpm -qa --pipe ./list", "unknown"),
        ("apt list -o APT::Update::Pre-Invoke::=id", "unknown"),
        ("systemctl status -H root@host", "unknown"),
        ("arch -x86_64 rm -rf ~", "destructive"),
        ("convert '|id' out.png", "unknown"),
        ("cmake -E rm -rf src", "destructive"),
        ("make RM='rm -rf src'", "destructive"),
        ("pytest --version", "unknown"),
        ("vim -V", "unknown"),
        # texts in options and programs
        ("sed -e'e id' a.txt", "unknown"),
        ("sed -ne'e id' a.txt", "unknown"),
        ("sed ':a;e id' a.txt", "unknown"),
        ("sed ':a;N;$!ba;s/\\n/ /g' a.txt", "safe"),
        ("sed -i d src/a.py", "destructive"),
        ("sed --in-place=/etc/* p a.txt", "unknown"),
        ("awk '{print $1,\n$2 > \"src/a.py\"}' x", "unknown"),
        ("awk 'BEGIN{for (k in SYMTAB) print SYMTAB[k]}'", "unknown"),
        ("awk -W exec=x.awk a", "unknown"),
        ("yq e 'load(\"/etc/shadow\")' x.yml", "system"),
        ("yq -o json 'load(\"/etc/shadow\")' x.yml", "system"),
        ("yq eval '.a.b' x.yml", "safe"),
        ("tomlq -i '.a=1' x.toml", "write"),
        # what a pipe hands on
        ("printf '%s\\n' a .env | xargs cat", "system"),
        ("bash <<< \"$(printf '%s\\n' ls 'rm -rf ~')\"", "destructive"),
        ("ls | sed 's|.*|/home/user/.ssh/id_rsa|' | xargs cat", "unknown"),
        ("find . -printf '/etc/shadow\\n' | xargs cat", "unknown"),
        ("ls | grep -h . list.txt | xargs cat", "unknown"),
        ("find . -name '*.py' | sed -n 1,5p | xargs cat", "safe"),
        ("git diff --name-only main...HEAD | xargs grep -n TODO", "safe"),
        # folders and files that would be lost
        ("python -m venv --clear src", "destructive"),
        ("pytest --basetemp=src", "destructive"),
        ("find . -name '*.py' -exec cp x.py {} \\;", "destructive"),
        ("ln -sf /dev/null src/main.py", "destructive"),
        ("git mv -f a.py b.py", "destructive"),
        ("mix ecto.drop", "destructive"),
        ("gem yank foo -v 1.0", "destructive"),
        ("mv src /tmp/gone", "destructive"),
        ("mv build /tmp/gone", "write"),
        ("truncate -s 0 app.log", "write"),
        ("rsync -a --log-file=/etc/x a b", "system"),
        ("install -m 4755 a b", "system"),
        ("tar xf a.tar --one-top-level=/etc", "unknown"),
        ("zip x.zip -@ < list", "unknown"),
        ("pandoc a.md --metadata-file=.env", "system"),
        # what only looks
        ("pip list", "safe"),
        ("pip list --outdated", "unknown"),
        ("npm ls --depth=0", "safe"),
        ("npm run", "safe"),
        ("npm run build", "unknown"),
        ("docker ps -a", "safe"),
        ("docker -H tcp://host ps", "unknown"),
        ("ip -br addr show", "safe"),
        ("ip link set eth0 down", "system"),
        ("mount", "safe"),
        ("7z l a.7z", "safe"),
        ("top -bn1", "safe"),
        ("patch --dry-run -p1 < a.patch", "safe"),
        ("poetry version patch", "write"),
    ],
)
def test_options_decide(command, klass):
    assert _class(command) == klass


@pytest.mark.parametrize(
    "command",
    [
        "cp other/* src/",
        "cp other/main.py src",
        "cp -r other/. src",
        "rsync -a other/ src/",
        "ln -sf other/main.py src/main.py",
        "sort -o src/main.py other/main.py",
        "convert a.png src/main.py",
        "ls | tee src/*.py",
        "patch -o src/main.py a.txt",
        "git log --output=src/main.py",
        "git stash show -p --output=src/main.py",
    ],
)
def test_replacing_a_file_that_has_content_loses_it(tmp_path, command):
    for folder in ("src", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "other" / "main.py").write_text("print(1)\n")
    assert _class(command, tmp_path) != "destructive"

    (tmp_path / "src" / "main.py").write_text("print(2)\n")

    assert _class(command, tmp_path) == "destructive"


def test_sorting_a_file_into_itself_loses_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("b\na\n")

    assert _class("sort -o a.txt a.txt", tmp_path) == "write"


def test_a_module_of_the_project_may_stand_for_one_of_pythons_own(tmp_path):
    assert _class("python3 -m json.tool a.json", tmp_path) == "safe"

    (tmp_path / "argparse.py").write_text("")

    assert _class("python3 -m json.tool a.json", tmp_path) == "unknown"


def test_a_loop_over_a_glob_reads_what_the_glob_names(tmp_path):
    from kode.permissions.shell.classes import Sweep

    found = classify(
        'for f in *; do cat "$f"; done', cwd=tmp_path, roots=(tmp_path,), home=Path("/home/user")
    )

    assert Sweep(path=f"{tmp_path}/*") in {sweep for part in found.parts for sweep in part.sweeps}


def _runs_in_auto_edit(command, cwd):
    parts = classify(command, cwd=cwd, roots=(cwd,), home=Path("/home/user")).parts
    return all(part.klass in ("safe", "write") or part.development for part in parts)


@pytest.mark.parametrize(
    "command",
    [
        "pytest --junitxml=src/main.py",
        "go build -o src/main.py",
        "eslint -o src/main.py .",
        "vite build --outDir src",
        "sphinx-build docs x --output src",
    ],
)
def test_a_build_that_would_write_over_sources_is_asked_about(tmp_path, command):
    assert _runs_in_auto_edit(command, tmp_path)

    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print(1)\n")

    assert not _runs_in_auto_edit(command, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "cd .. && pytest",
        "make -C/home/user/nasty",
        "mypy --install-types",
        "cmake --install build",
        "PYTEST_ADDOPTS='--basetemp=src' pytest",
        "MAKEFLAGS=--eval=x make",
    ],
)
def test_what_is_more_than_a_build_is_asked_about(command):
    assert not _runs_in_auto_edit(command, Path("/home/user/project"))
