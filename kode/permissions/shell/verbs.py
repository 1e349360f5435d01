"""What one command would do: finds its judge by its name. Words in, a `Finding` out.

The judges are in `readers`, `find`, `search`, `filters`, `writers`, `archives`, `builtins`,
`wrappers`, `git`, `remote` and `tools`; commands that need none are data in `table`. What is in no
table is `unknown`.
"""

import itertools
import os
import re
from collections.abc import Callable

from kode.permissions import sensitive
from kode.permissions.shell import (
    archives,
    builtins,
    filters,
    find,
    readers,
    remote,
    search,
    table,
    writers,
)
from kode.permissions.shell.development import development_tool
from kode.permissions.shell.git import git
from kode.permissions.shell.judge import (
    Finding,
    Scene,
    destructive,
    safe,
    together,
    unknown,
    with_more,
)
from kode.permissions.shell.paths import reads_path, secrets_named
from kode.permissions.shell.tools import TOOLS
from kode.permissions.shell.words import FOUND, Word
from kode.permissions.shell.wrappers import (
    SHELLS,
    WRAPPERS,
    a_shell,
    command_builtin,
    env,
    evaluate,
    flock,
    remote_shell,
    su,
    trap,
    watch,
    wrapped,
    xargs,
)

Judge = Callable[[list[Word], Scene], Finding]


def judge(words: list[Word], scene: Scene) -> Finding:
    """What a command would do. `words` holds the program's name first and is not empty."""
    verb = words[0]
    if not verb.known or verb.glob or not verb.text or FOUND in verb.text:
        return unknown("which program runs is not known beforehand")
    name, foreign = _program(verb.text, scene)
    if name == "-":
        return unknown("which program runs is not known beforehand")
    found = _judge_named(name, words, scene)
    if found.klass == "unknown" and not found.development:
        found = together(found, *losing(words[1:]), *_keys_named(words, scene))
    if not foreign:
        return found
    return (
        together(unknown("a program outside the system's folders"), found)
        if (not foreign.development or found.klass in ("system", "destructive"))
        else found
        if found.development
        else together(foreign, found)
    )


_NAMED_WITH_MORE = re.compile(r"(?:python|pypy|perl|ruby|lua|php|node)[\d.]*$|mkfs|newfs")


def knows(name: str) -> bool:
    """Whether a program of this name is known, so that a function would stand for it."""
    tables = (_SPECIAL, WRAPPERS, SHELLS, TOOLS, table.PRINTERS, table.LISTERS, table.READERS)
    more = (table.CODE_FREE_WRITERS, table.DEVELOPMENT, table.CLASS_BY_NAME)
    return any(name in one for one in (*tables, *more)) or _NAMED_WITH_MORE.match(name) is not None


def _program(text: str, scene: Scene) -> tuple[str, Finding | None]:
    """The name a program is known by, and a finding when it lies in no system folder."""
    if "/" not in text:
        return text, None
    folder, name = os.path.split(os.path.normpath(text))
    if folder in table.SYSTEM_FOLDERS:
        return name or "-", None
    if scene.cwd is not None:
        path = os.path.normpath(os.path.join(scene.cwd, text))
        own = [f"{root}/{tools}" for root in scene.where.roots for tools in table.TOOL_FOLDERS]
        if os.path.dirname(path) in own or name in ("gradlew", "mvnw"):
            inside = any(sensitive.below(path, root) for root in scene.where.roots)
            development = Finding(
                klass="unknown", reason="a tool the project brings", development=inside
            )
            return name or "-", development
    return name or "-", unknown("a program outside the system's folders")


_EDITORS = ("vim", "nvim", "nano", "R")
_SHORT_VERSION = ("-V",)
"""For some editors that is how much they tell while they run."""


def _judge_named(name: str, words: list[Word], scene: Scene) -> Finding:
    if (
        len(words) == 2
        and name in table.VERSION_ASKERS
        and words[1].text
        in ("--version", "--help", "-version", *_SHORT_VERSION[name in _EDITORS :])
    ):
        return safe("prints its version or help")
    if [w.text for w in words[1:]] == ["-v"] and name in ("node", "ruby", "php", "npm"):
        return safe("prints its version")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words, scene)
    if name in WRAPPERS:
        return wrapped(name, words, scene)
    if name in SHELLS:
        return a_shell(name, words, scene)
    tool = TOOLS.get(name)
    if tool is not None:
        return tool(words, scene)
    if name in table.PRINTERS:
        return readers.printer(name, words, scene)
    if name in table.LISTERS:
        return readers.reader(name, words, scene, names_only=True)
    if name in table.READERS:
        return readers.reader(name, words, scene, names_only=False)
    if name in table.CODE_FREE_WRITERS:
        return writers.code_free(name, words, scene)
    if name in table.DEVELOPMENT:
        return development_tool(words, scene)
    if name.startswith(("mkfs", "newfs")):
        return destructive("makes a new file system")
    if _NAMED_WITH_MORE.match(name):
        return TOOLS["python" if name.startswith(("python", "pypy")) else "perl"](words, scene)
    if name in table.CLASS_BY_NAME:
        return _tabled(name, words, scene)
    return unknown("a program that is not known")


_TEXT_IN_CODE = re.compile(r"""(["'])([^"'\n]{2,200})\1""")


def _keys_named(words: list[Word], scene: Scene) -> list[Finding]:
    """Findings for files that hold keys, among the arguments of a program that is not known, and
    in the texts of a program on the command line."""
    named: list[str] = []
    for before, word in itertools.pairwise(words):
        if re.search(r"[\s(]", word.text):
            named += [match[2] for match in _TEXT_IN_CODE.finditer(word.text)]
        elif not word.text.startswith("-") and not before.text.startswith("--env"):
            named.append(word.text)
    found = (reads_path(Word(text), scene) for text in named[:50])
    return [one for one in found if one.secret]


def losing(words: list[Word]) -> list[Finding]:
    """Findings for program texts and subcommands that delete."""
    texts = [word.text for word in words]
    code = " ".join(text for text in texts if " " in text or "(" in text)
    if re.search(table.LOSING_WORDS, code, re.IGNORECASE):
        return [destructive("its program text deletes, or runs a shell")]
    if any(
        re.fullmatch(table.LOSING_SUBCOMMANDS, text, re.IGNORECASE)
        for text in (*texts[:4], " ".join(texts[:2]))
    ):
        return [destructive("a subcommand that deletes")]
    return []


def _tabled(name: str, words: list[Word], scene: Scene) -> Finding:
    klass, reason = table.CLASS_BY_NAME[name]
    looks = table.SYSTEM_LOOKS.get(name, ())
    if klass == "system" and len(words) > 1 and words[1].text in looks:
        options = {w.text.split("=", 1)[0] for w in words[2:] if w.text.startswith("-")}
        only = options <= table.LOOKING_OPTIONS
        return safe("only looks") if only else unknown("an option that may run something")
    if name == "ip" and re.fullmatch(_IP_LOOKS, " ".join(w.text for w in words[1:])):
        return safe("tells of the network's addresses")
    if name == "mount" and [w.text for w in words[1:]] in ([], ["-l"]):
        return safe("lists what is mounted")
    if name in table.LOOKS_THAT_ARE_UNKNOWN and not any(
        re.fullmatch(
            r"add|del|delete|set|flush|up|down|change|replace|-C|-c|-w|-d|--clear|hw|-s"
            r"|link|--vacuum\S*|--rotate|-[a-z]*insert|-replace|-remove|-convert",
            w.text,
        )
        for w in words[1:]
    ):
        return unknown("looks at the machine")
    found = Finding(klass=klass, reason=reason, remote=klass == "network")
    return together(found, *secrets_named(words, scene))


_IP_LOOKS = re.compile(
    r"(?:-(?:4|6|br|brief|c|j|s|o) )*(?:a|addr|address|l|link|r|route|neigh|rule)"
    r"(?: (?:show|list|ls)(?: [\w.]+)?)?"
)


def _systemctl(words: list[Word], scene: Scene) -> Finding:
    ends = {"poweroff", "reboot", "halt", "kexec", "rescue", "emergency"}
    if any(w.text in ends for w in words[1:]):
        return destructive("turns the machine off")
    return _tabled("systemctl", words, scene)


_SPECIAL: dict[str, Judge] = {
    "git": git,
    "command": command_builtin,
    "env": env,
    "xargs": xargs,
    "gxargs": xargs,
    "eval": evaluate,
    "trap": trap,
    "source": builtins.source,
    ".": builtins.source,
    "ssh": remote_shell,
    "su": su,
    "runuser": su,
    "flock": flock,
    "watch": watch,
    "cd": builtins.cd,
    "pushd": builtins.cd,
    "popd": builtins.cd,
    "set": builtins.set_options,
    "export": builtins.declares,
    "declare": builtins.declares,
    "typeset": builtins.declares,
    "local": builtins.declares,
    "readonly": builtins.declares,
    "unset": builtins.unset,
    "let": builtins.let,
    "read": builtins.read,
    "printenv": builtins.printenv,
    "history": builtins.history,
    "crontab": builtins.crontab,
    "alias": builtins.alias,
    "echo": readers.echo,
    "printf": readers.echo,
    "test": readers.test,
    "[": readers.test,
    "grep": search.grep,
    "egrep": search.grep,
    "fgrep": search.grep,
    "rg": search.rg,
    "ag": readers.searcher,
    "ack": readers.searcher,
    "tree": readers.tree,
    "file": readers.file_kinds,
    "sort": readers.sort,
    "gsort": readers.sort,
    "uniq": readers.uniq,
    "xxd": readers.xxd,
    "date": readers.date,
    "hostname": readers.hostname,
    "ps": readers.ps,
    "top": readers.top,
    "ar": archives.archive,
    "7z": archives.archive,
    "7za": archives.archive,
    "7zz": archives.archive,
    "unrar": archives.archive,
    "arch": readers.arch,
    "{": lambda words, scene: with_more(safe("a group"), scene.run_words(words[1:])),
    "tr": lambda words, scene: safe("prints"),
    "df": lambda words, scene: safe("prints"),
    "sed": filters.sed,
    "gsed": filters.sed,
    "awk": filters.awk,
    "gawk": filters.awk,
    "mawk": filters.awk,
    "nawk": filters.awk,
    "jq": filters.jq,
    "gojq": filters.jq,
    "yq": filters.jq,
    "tomlq": filters.jq,
    "jaq": filters.jq,
    "find": find.find,
    "gfind": find.find,
    "fd": find.fd,
    "fdfind": find.fd,
    "rm": writers.rm,
    "unlink": writers.rm,
    "cp": writers.two_places,
    "mv": writers.two_places,
    "ln": writers.two_places,
    "link": writers.two_places,
    "install": writers.two_places,
    "mkdir": writers.writes_all,
    "rmdir": writers.writes_all,
    "touch": writers.writes_all,
    "mkfifo": writers.writes_all,
    "mktemp": writers.writes_all,
    "patch": writers.writes_all,
    "tee": writers.tee,
    "split": writers.split,
    "truncate": writers.truncate,
    "dd": writers.dd,
    "chmod": writers.chmod,
    "chown": writers.chmod,
    "chgrp": writers.chmod,
    "tar": archives.tar,
    "gtar": archives.tar,
    "bsdtar": archives.tar,
    "unzip": archives.unzip,
    "curl": remote.curl,
    "wget": remote.curl,
    "rsync": remote.rsync,
    "nc": remote.nc,
    "ncat": remote.nc,
    "netcat": remote.nc,
    "socat": remote.nc,
    "kill": builtins.kill,
    "systemctl": _systemctl,
    "less": readers.less,
    "more": readers.less,
    "most": readers.less,
    "init": builtins.init,
}
