"""What the shell's own commands and those about the machine would do. Those that run another
command are in `wrappers`."""

import re

from kode.permissions.shell.environment import assignment_finding
from kode.permissions.shell.judge import Finding, Scene, destructive, safe, system, unknown
from kode.permissions.shell.options import has_flag, has_option, positionals
from kode.permissions.shell.words import UNKNOWN, Word
from kode.permissions.shell.wrappers import sourced


def cd(words: list[Word], scene: Scene) -> Finding:
    return safe("changes the folder")


def set_options(words: list[Word], scene: Scene) -> Finding:
    if len(words) == 1:
        return system("shows every variable, secrets with them")
    return safe("sets options of the shell")


def declares(words: list[Word], scene: Scene) -> Finding:
    if len(words) == 1 or any(re.fullmatch(r"-\w*p\w*", w.text) for w in words[1:]):
        if words[0].text in ("local", "readonly"):
            return safe("lists variables")
        return system("shows every variable, secrets with them")
    options = [w.text for w in words[1:] if re.fullmatch(r"[-+]\w+", w.text)]
    if words[0].text != "local" and len(options) == len(words) - 1 and "-n" not in options:
        return system("shows every variable, secrets with them")
    if any(re.search(r"\$\(|`", w.text) for w in words[1:]) or any(
        re.fullmatch(r"-\w*[in]\w*", w.text) for w in words[1:]
    ):
        return unknown("a variable whose value is evaluated")
    return safe("sets variables")


def printenv(words: list[Word], scene: Scene) -> Finding:
    names = positionals(words[1:])
    plain = "PATH HOME USER LANG TERM SHELL PWD TZ LOGNAME EDITOR VIRTUAL_ENV CI TMPDIR".split()
    if names and all(w.text in plain for w in names):
        return safe("prints")
    return system("shows variables, secrets with them")


def source(words: list[Word], scene: Scene) -> Finding:
    return sourced(words, scene)


def history(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-c", "-d", "-w"):
        return destructive("deletes the shell's history")
    return system("shows commands of the past, secrets with them")


def crontab(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-r"):
        return destructive("deletes all planned commands")
    return (
        safe("lists planned commands")
        if has_flag(words[1:], "-l", valued="u")
        else system("plants what runs later")
    )


def alias(words: list[Word], scene: Scene) -> Finding:
    if len(words) == 1 or words[1:] == [Word("-p")]:
        return unknown("lists aliases")
    return system("makes a name stand for another command")


def kill(words: list[Word], scene: Scene) -> Finding:
    if len(words) > 1 and words[1].text in ("-l", "-L", "--list", "--table"):
        return safe("lists signals")
    return system("ends processes")


def let(words: list[Word], scene: Scene) -> Finding:
    if any(not re.fullmatch(r"[\w\s+*/%=<>&|()!-]*", w.text) for w in words[1:]):
        return unknown("text that is evaluated")
    return safe("calculates")


def unset(words: list[Word], scene: Scene) -> Finding:
    steers = (assignment_finding(w.text, Word(UNKNOWN), keeps=False) for w in words[1:])
    if any(one.klass != "safe" for one in steers):
        return unknown("unsets a variable that steers other programs")
    return let(words, scene)


def read(words: list[Word], scene: Scene) -> Finding:
    return let(
        [words[0], *positionals(words[1:], ("-p", "-d", "-n", "-t", "-u", "-i", "-a"))], scene
    )


def init(words: list[Word], scene: Scene) -> Finding:
    if len(words) > 1 and words[1].text in ("0", "6"):
        return destructive("turns the machine off")
    return system("changes how the machine runs")
