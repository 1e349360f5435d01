"""Commands that run another command: `env`, `sudo`, `xargs`, `timeout`, shells, `eval`.

What they run is judged as if it stood alone, and then what the wrapper adds.
"""

import re
from dataclasses import dataclass

from kode.permissions.shell.classes import PartClass
from kode.permissions.shell.environment import assignment_finding
from kode.permissions.shell.judge import (
    Finding,
    Scene,
    destructive,
    development,
    network,
    safe,
    system,
    together,
    unknown,
    with_more,
)
from kode.permissions.shell.options import has_option, option_values
from kode.permissions.shell.paths import reads_path
from kode.permissions.shell.table import LOSING_WORDS
from kode.permissions.shell.words import UNKNOWN, Word


@dataclass(frozen=True, slots=True)
class Wrapper:
    values: str = ""
    """Options that take a value as the next word."""
    skips: int = 0
    """Arguments of its own before the command."""
    adds: str = "safe"
    """What it adds: `safe`, `unknown`, `development`, `network` or `system`."""


WRAPPERS: dict[str, Wrapper] = {
    "nice": Wrapper("-n --adjustment"),
    "ionice": Wrapper("-c -n -p --class --classdata"),
    "chrt": Wrapper("-p", 1),
    "nohup": Wrapper(),
    "time": Wrapper("-f --format"),
    "gtime": Wrapper("-f --format"),
    "timeout": Wrapper("-s -k --signal --kill-after", 1),
    "gtimeout": Wrapper("-s -k --signal --kill-after", 1),
    "stdbuf": Wrapper("-i -o -e --input --output --error"),
    "unbuffer": Wrapper(),
    "setsid": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper("-a"),
    "coproc": Wrapper(),
    "noglob": Wrapper(),
    "nocorrect": Wrapper(),
    "chronic": Wrapper(),
    "caffeinate": Wrapper("-t -w"),
    "taskset": Wrapper("-p", 1),
    "numactl": Wrapper(),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "catchsegv": Wrapper(),
    "ltrace": Wrapper("-e -o -p -u", 0, "unknown"),
    "strace": Wrapper("-e -o -p -u -s", 0, "unknown"),
    "valgrind": Wrapper("", 0, "unknown"),
    "entr": Wrapper("", 0, "unknown"),
    "parallel": Wrapper("-j -a --jobs -I", 0, "unknown"),
    "rush": Wrapper("-j", 0, "unknown"),
    "faketime": Wrapper("", 1, "unknown"),
    "fakeroot": Wrapper("", 0, "unknown"),
    "proxychains": Wrapper("", 0, "unknown"),
    "torsocks": Wrapper("", 0, "unknown"),
    "dotenv": Wrapper("-f", 0, "unknown"),
    "direnv": Wrapper("", 2, "unknown"),
    "setarch": Wrapper("", 1),
    "linux64": Wrapper(),
    "hyperfine": Wrapper("-w -r", 0, "unknown"),
    "sudo": Wrapper(
        "-u -g -h -p -C -D -R -r -t -T -U --user --group --chdir --host --prompt", 0, "system"
    ),
    "doas": Wrapper("-u -C", 0, "system"),
    "pkexec": Wrapper("--user", 0, "system"),
    "chroot": Wrapper("--userspec --groups", 1, "system"),
    "unshare": Wrapper("", 0, "system"),
    "nsenter": Wrapper("-t --target", 0, "system"),
    "systemd-run": Wrapper("-p --unit", 0, "system"),
    "setpriv": Wrapper("", 0, "system"),
    "firejail": Wrapper("", 0, "unknown"),
    "bwrap": Wrapper("", 0, "unknown"),
}

SHELLS = frozenset("bash sh zsh dash ksh mksh ash fish rbash yash csh tcsh pwsh".split())
_DECODERS = re.compile(
    r"^(?:base64|base32|basenc|xxd|openssl|uudecode|rev|tr|gunzip|zcat|bzip2|od"
    r"|gzip|xz|printf|sed|awk|perl|python3?|hexdump|cut)$"
)


def wrapped(name: str, words: list[Word], scene: Scene) -> Finding:
    """A command of `WRAPPERS` with what it runs."""
    wrapper = WRAPPERS[name]
    command = after_options(words[1:], wrapper.values.split())[wrapper.skips :]
    own = _ADDS[wrapper.adds]
    if name in ("time", "strace", "ltrace") and has_option(
        words[1 : len(words) - len(command)], "-o", "--output"
    ):
        own = together(own, unknown("writes its report somewhere"))
    if name in ("chrt", "taskset", "ionice") and has_option(words[1:3], "-p", "--pid"):
        own = system("changes a process that runs")
    if name in ("busybox", "toybox") and has_option(words[1:], "--install"):
        return system("plants programs")
    if name == "coproc" and len(command) > 1 and re.fullmatch(r"[A-Z_]+", command[0].text):
        command = command[1:]
    if not command:
        return own
    return with_more(own, scene.run_words(command))


_ADDS = {
    "safe": safe("runs another command"),
    "unknown": unknown("runs another command in its own way"),
    "development": development(),
    "network": network("runs another command, downloading what it needs"),
    "system": system("runs a command with other rights"),
}


def after_options(words: list[Word], with_value: list[str]) -> list[Word]:
    """The words after leading options and their values."""
    rest = list(words)
    while rest and rest[0].text.startswith("-") and rest[0].text != "-":
        option = rest.pop(0).text
        if option == "--":
            return rest
        if option in with_value and rest:
            rest.pop(0)
    return rest


def command_builtin(words: list[Word], scene: Scene) -> Finding:
    """`command -v x` looks a program up; otherwise `command x` runs it."""
    if words[1:] and re.fullmatch(r"-[pvV]*[vV][pvV]*", words[1].text):
        return safe("looks a program up")
    command = after_options(words[1:], [])
    return with_more(safe("runs another command"), scene.run_words(command)) if command else safe()


def env(words: list[Word], scene: Scene) -> Finding:
    """`env` alone shows all variables, secrets with them; with a command it runs that."""
    rest, found, texts = list(words[1:]), safe("runs another command"), ""
    while rest:
        text = rest[0].text
        if text in ("-u", "-C", "--unset", "--chdir", "-P") and len(rest) > 1:
            if text in ("-C", "--chdir"):
                found = together(found, unknown("runs it in another folder"))
            del rest[:2]
        elif text.startswith("--split-string=") or re.match(r"-[iv0]*S.", text):
            texts = text.split("=", 1)[-1] if text.startswith("--") else text.split("S", 1)[1]
            rest.pop(0)
        elif re.fullmatch(r"-[iv0]*S|--split-string", text) and len(rest) > 1:
            texts = rest[1].text
            del rest[:2]
        elif text.startswith("-"):
            if text.startswith("--chdir="):
                found = together(found, unknown("runs it in another folder"))
            rest.pop(0)
        elif match := re.match(r"([A-Za-z_]\w*)=(.*)", text, re.DOTALL):
            found = together(found, assignment_finding(match[1], Word(match[2]), keeps=False))
            rest.pop(0)
        else:
            break
    if texts:
        tail = " ".join(word.text for word in rest)
        return with_more(found, scene.run_text(f"{texts} {tail}"))
    if not rest:
        return system("shows every variable, secrets with them")
    return with_more(found, scene.run_words(rest))


_XARGS_VALUES = (
    "-a -d -E -I -L -n -P -s -R -S -J --arg-file --delimiter --max-args --max-procs "
    "--max-lines --max-chars --replace --process-slot-var"
)


def xargs(words: list[Word], scene: Scene) -> Finding:
    """Runs a command with words from its input, which are not known, unless a plain `find` or the
    like gives names of files in the project."""
    rest = list(words[1:])
    placeholder, own = "", safe("runs another command")
    for value in option_values(rest, ("-a", "--arg-file")):
        own = together(own, reads_path(value, scene))
    replacing = option_values(rest, ("-I", "-J"))
    if replacing:
        placeholder = replacing[0].text
    command = after_options(rest, _XARGS_VALUES.split())
    names = scene.feed.names if scene.feed is not None and not has_option(rest, "-a") else ()
    given = [Word(name) for name in names] or [Word(UNKNOWN)]
    if not command:
        return own
    if placeholder:
        command = [
            Word(word.text.replace(placeholder, one.text), word.glob)
            for word in command
            for one in (given if placeholder in word.text else given[:1])
        ]
    else:
        command = [*command, *given]
    text = scene.feed.text if scene.feed is not None else None
    plain = text is not None and not re.search(r"[\"'\\]", text)
    if text is not None and plain and not placeholder and not _splits_otherwise(rest):
        command[-len(given) :] = [Word(one) for one in text.split()[:50]]
    return with_more(own, scene.run_words(command))


def _splits_otherwise(rest: list[Word]) -> bool:
    return has_option(rest, "-0", "--null", "-d", "--delimiter", "-E", "-L", "-n", "-J")


def a_shell(name: str, words: list[Word], scene: Scene) -> Finding:
    """`bash -c TEXT`, `bash FILE`, or a shell that reads its commands from a pipe."""
    rest, texts = list(words[1:]), False
    own = safe("runs a command line")
    while rest and rest[0].text[:1] in ("-", "+") and rest[0].text not in ("-", "--"):
        option = rest.pop(0).text
        if option in ("--version", "--help"):
            return safe("prints")
        if option in ("-o", "+o", "-O", "+O"):
            rest = rest[1:]
        elif option in ("--norc", "--noprofile", "--posix", "--restricted", "--verbose"):
            continue
        elif option.startswith("--"):
            return unknown("a shell with a start file or option of its own")
        elif "c" in option:
            texts = True
        if "i" in option.strip("-+") or "l" in option.strip("-+"):
            own = together(own, unknown("a shell that reads its start files"))
    if rest and rest[0].text in ("-", "--"):
        rest.pop(0)
    if texts:
        if not rest:
            return unknown("a shell without a command")
        return together(own, _shell_text(rest[0], scene))
    if scene.downloads and rest:
        return destructive("runs what it just downloaded")
    if rest and not any(w.text.startswith("-s") for w in words[1:2]):
        return _shell_file(rest[0], scene)
    return together(own, _shell_input(scene))


def _shell_text(word: Word, scene: Scene) -> Finding:
    if scene.downloads:
        return destructive("runs what it just downloaded")
    if not word.known:
        return unknown("the command line is not known beforehand")
    return with_more(safe("runs a command line"), scene.run_text(word.text))


def _shell_file(word: Word, scene: Scene) -> Finding:
    if word.text.startswith("/dev/fd/") or word.text == "/dev/stdin":
        return _shell_input(scene)
    return unknown("runs a script")


def _shell_input(scene: Scene) -> Finding:
    feed = scene.feed
    if feed is None:
        return unknown("a shell of its own")
    if any(part.klass == "network" for part in feed.parts):
        return destructive("runs what it just downloaded")
    if feed.text is not None:
        own = unknown("runs what comes in through a pipe") if feed.parts else safe("runs commands")
        return with_more(own, scene.run_text(feed.text))
    if any(part.argv and _DECODERS.match(part.argv[0]) for part in feed.parts):
        return system("runs what was hidden by an encoding")
    return unknown("runs what comes in through a pipe")


def interpreter_input(scene: Scene) -> Finding | None:
    """What an interpreter without a script would run: its input."""
    if scene.feed is None:
        return None
    if any(part.klass == "network" for part in scene.feed.parts):
        return destructive("runs what it just downloaded")
    if scene.feed.text is not None and re.search(LOSING_WORDS, scene.feed.text, re.IGNORECASE):
        return destructive("its program text deletes, or runs a shell")
    return unknown("runs what comes in through a pipe")


def evaluate(words: list[Word], scene: Scene) -> Finding:
    """`eval`: its words joined are a command line."""
    if scene.downloads:
        return destructive("runs what it just downloaded")
    if any(not word.known for word in words):
        return unknown("evaluates text that is not known beforehand")
    text = " ".join(word.text for word in words[1:])
    return with_more(safe("runs a command line"), scene.run_text(text))


def trap(words: list[Word], scene: Scene) -> Finding:
    """`trap TEXT SIGNAL` runs the text when the signal comes."""
    if len(words) < 3 or words[1].text.startswith("-"):
        return safe("lists or clears traps")
    if not words[1].known:
        return unknown("plants a command that is not known beforehand")
    return with_more(unknown("plants a command for later"), scene.run_text(words[1].text))


def sourced(words: list[Word], scene: Scene) -> Finding:
    """`source FILE`: runs a file in this shell."""
    if scene.downloads:
        return destructive("runs what it just downloaded")
    read = [reads_path(word, scene) for word in words[1:2]]
    return together(unknown("runs a script in this shell"), *(one for one in read if one.secret))


def remote_shell(words: list[Word], scene: Scene) -> Finding:
    """`ssh HOST COMMAND`."""
    values = "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B".split()
    rest = after_options(words[1:], values)
    options = words[1 : len(words) - len(rest)]
    found = network("runs a command on another machine")
    if any(
        re.search(r"proxycommand|localcommand|knownhostscommand|include", word.text, re.IGNORECASE)
        for word in options
    ) or has_option(options, "-F"):
        found = together(found, unknown("runs a program to connect"))
    rest = [rest[0], *after_options(rest[1:], values)] if rest else []
    if len(rest) < 2:
        return found
    parts = scene.run_text(" ".join(word.text for word in rest[1:]))
    grave = tuple(part for part in parts if part.klass in ("destructive", "system"))
    return with_more(found, grave)


def su(words: list[Word], scene: Scene) -> Finding:
    texts = option_values(words[1:], ("-c", "--command"))
    parts: tuple[PartClass, ...] = ()
    for text in texts:
        parts += scene.run_text(text.text)
    return with_more(system("runs as another user"), parts)


def flock(words: list[Word], scene: Scene) -> Finding:
    rest = after_options(words[1:], ["-w", "-E", "--timeout", "--conflict-exit-code"])
    texts = option_values(words[1:], ("-c", "--command"))
    parts: tuple[PartClass, ...] = ()
    for text in texts:
        parts += scene.run_text(text.text)
    if not texts and len(rest) > 1:
        parts = scene.run_words(rest[1:])
    return with_more(unknown("runs a command under a lock"), parts)


def watch(words: list[Word], scene: Scene) -> Finding:
    rest = after_options(words[1:], ["-n", "--interval", "-q"])
    if not rest or any(not word.known for word in rest):
        return unknown("runs a command again and again")
    text = " ".join(word.text for word in rest)
    return with_more(unknown("runs a command again and again"), scene.run_text(text))
