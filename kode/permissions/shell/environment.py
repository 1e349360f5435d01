"""What setting a variable does: some change what runs after it. Commands are not here."""

import re

from kode.permissions.shell.judge import Finding, development, safe, system, unknown
from kode.permissions.shell.words import Word

_STEERING = re.compile(
    r"LD_\w+|DYLD_\w+|GIT_\w+|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|PATH|BASH_ENV|ENV|IFS|HOME|SHELL"
    r"|CDPATH|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|BASH_FUNC\w*|BASH_\w+|HISTFILE|ZDOTDIR"
    r"|PYTHON(?!UNBUFFERED$|DONTWRITEBYTECODE$|HASHSEED$|IOENCODING$|UTF8$|WARNINGS$|TRACEMALLOC$)"
    r"\w+|PERL5\w+|PERLLIB|RUBY\w+|GEM_\w+|BUNDLE_\w+|NODE_(?!ENV$|NO_WARNINGS$)\w+|NPM_\w+|npm_\w+"
    r"|YARN_\w+|PIP_\w+|UV_\w+|POETRY_\w+|JAVA_\w+|_JAVA_\w+|JDK_\w+|MAVEN_\w+|GRADLE_\w+|CLASSPATH"
    r"|LESS\w*|MAN\w*|SSH_\w+|SUDO_\w+|TAR_OPTIONS|GREP_OPTIONS|RIPGREP_CONFIG_PATH|FZF_\w+|AWK\w+"
    r"|POSIXLY_CORRECT|GCONV_PATH|LOCPATH|NLSPATH|TERMINFO\w*|TERMCAP|XDG_\w+|CC|CXX|LD|AR|MAKE\w*"
    r"|CARGO_\w+|RUSTC\w*|RUSTFLAGS|RUSTDOC\w*|GO(?:FLAGS|PROXY|ROOT|PATH|TOOLCHAIN)|CGO_\w+"
    r"|DOCKER_\w+|KUBECONFIG|AWS_\w+|\w*_PROXY|\w*_proxy|SSL_\w+|CURL_\w+|WGETRC|PGSERVICEFILE"
    r"|PYTEST_\w+|TMPDIR|EXINIT|VIMINIT|LUA_\w+|OPENSSL_\w+|DEBUGINFOD_\w+|MALLOC_\w+|GLIBC_\w+"
)
_DEVELOPERS = re.compile(
    r"PYTHONPATH|PYTEST_ADDOPTS|NODE_OPTIONS|NODE_PATH|RUSTFLAGS|CARGO_TARGET_DIR|CARGO_TERM_\w+"
    r"|GOFLAGS|CGO_ENABLED|MAKEFLAGS|CARGO_INCREMENTAL|RUST_BACKTRACE|JAVA_HOME|XDG_CACHE_HOME"
)
_QUIET = {"cat", "", "less -FRX", "0", "1", "true", "false"}
_PLAIN = re.compile(
    r"GIT_(?:PAGER|TERMINAL_PROMPT|OPTIONAL_LOCKS)|\w*PAGER|PYTEST_DISABLE_PLUGIN_AUTOLOAD"
    r"|PIP_NO_INPUT|DOCKER_BUILDKIT"
)


def assignment_finding(name: str, value: Word, *, keeps: bool) -> Finding:
    """What `name=value` does; `keeps` when it is exported to every command after it."""
    if _PLAIN.fullmatch(name) and value.known and value.text in _QUIET:
        return safe("sets a variable")
    if not _STEERING.fullmatch(name):
        return safe("sets a variable")
    if keeps:
        return system(f"sets {name} for every command after it")
    if _DEVELOPERS.fullmatch(name) and _stays_inside(value):
        return development(f"{name} steers the project's own tools")
    return unknown(f"{name} changes which programs run, or how")


_LOADING = r"--require|--import|--loader|-r\b|-p\b|wrapper|--basetemp|--eval|toolexec|linker"


def _stays_inside(value: Word) -> bool:
    """Whether a value names no place outside the project and loads nothing by itself."""
    if not value.known or re.search(_LOADING, value.text):
        return False
    return all(not step.startswith(("/", "~", "..")) for step in re.split(r"[:,\s=]", value.text))
