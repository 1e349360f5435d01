"""Completion scripts in the languages of bash, zsh and fish, from what a command line may hold.

Each walks the words before the cursor to find the command, then offers what may stand there. What
may stand where is `command_line`'s business.
"""

from collections.abc import Callable, Mapping, Sequence

from kode.cli.commands.command_line import Context, Taken

HEADER = "# Completes kode's command line in {shell}. Made by: kode completion {shell}"


def bash(contexts: Sequence[Context]) -> str:
    """The script for bash 3.2 and later; needs no other package."""
    return "\n".join(
        [
            HEADER.format(shell="bash"),
            "_kode() {",
            "    local kode=$1 typed=${COMP_LINE:0:COMP_POINT}",
            "    local context='' skip='' word i kind='' words='' flags='' line cur prev",
            "    # From the line itself, since bash cuts words at `=` and `:`.",
            "    cur=${typed##*[[:space:]=]}",
            '    prev=${typed%"$cur"}',
            '    prev=${prev%"${prev##*[![:space:]=]}"}',
            "    prev=${prev##*[[:space:]=]}",
            "    COMPREPLY=()",
            "    for ((i = 1; i < COMP_CWORD; i++)); do",
            "        word=${COMP_WORDS[i]}",
            "        [[ $word == '=' ]] && continue",
            "        if [[ $skip ]]; then skip=''; continue; fi",
            "        case $word in",
            f"            {'|'.join(_valued(contexts))}) skip=1 ;;",
            '            *) case "$context $word" in',
            f'                {_patterns(contexts)}) context="${{context:+$context }}$word" ;;',
            "            esac ;;",
            "        esac",
            "    done",
            "    case $context in",
            *(line for context in contexts for line in _bash_context(context)),
            "    esac",
            "    if [[ $cur == -* && ! $kind ]]; then words=$flags; fi",
            "    case $kind in",
            "        sessions|models)",
            '            words=$("$kode" completion --values "$kind" 2>/dev/null | cut -f1) ;;',
            "        files|folders|free)",
            "            local IFS=$'\\n'",
            '            [[ $kind == files ]] && COMPREPLY=($(compgen -f -- "$cur"))',
            '            [[ $kind == folders ]] && COMPREPLY=($(compgen -d -- "$cur"))',
            "            compopt -o filenames 2>/dev/null",
            "            return ;;",
            "    esac",
            '    while IFS= read -r line; do COMPREPLY+=("${line#"${cur%"${cur##*:}"}"}"); done \\',
            '        < <(compgen -W "$words" -- "$cur")',
            "}",
            "complete -o default -F _kode kode",
            "",
        ]
    )


def _bash_context(context: Context) -> list[str]:
    flags = " ".join(name for flag in context.flags for name in flag.names)
    words = " ".join(name for name, _ in context.commands)
    lines = [f"        {_quoted(' '.join(context.words))})"]
    lines.append(f"            flags={_quoted(flags)}")
    if words:
        lines.append(f"            words={_quoted(words)}")
    cases = [
        f"                {'|'.join(flag.names)}) {_bash_value(flag.value)} ;;"
        for flag in context.flags
        if flag.value.kind
    ]
    argument = _bash_value(context.argument) if context.argument.kind not in ("", "free") else ""
    otherwise = f"[[ $cur == -* ]] || {{ {argument}; }}" if argument else ":"
    if cases:
        lines += ["            case $prev in", *cases]
        lines += [f"                *) {otherwise} ;;", "            esac"]
    elif argument:
        lines.append(f"            {otherwise}")
    return [*lines, "            ;;"]


def _bash_value(value: Taken) -> str:
    if value.kind == "words":
        return f"kind=words words={_quoted(' '.join(value.words))}"
    return f"kind={value.kind}"


def zsh(contexts: Sequence[Context]) -> str:
    """The script for zsh 5, to be sourced after `compinit` or kept as `_kode` in `fpath`."""
    return "\n".join(
        [
            "#compdef kode",
            HEADER.format(shell="zsh"),
            "_kode() {",
            "    local context='' skip='' word kind='' line i prev=${words[CURRENT-1]} cur=$PREFIX",
            "    local -a offered_flags offered_commands choices",
            "    for ((i = 2; i < CURRENT; i++)); do",
            "        word=${words[i]}",
            "        if [[ -n $skip ]]; then skip=''; continue; fi",
            "        case $word in",
            f"            ({'|'.join(_valued(contexts))}) skip=1 ;;",
            '            (*) case "$context $word" in',
            f'                ({_patterns(contexts)}) context="${{context:+$context }}$word" ;;',
            "            esac ;;",
            "        esac",
            "    done",
            "    if [[ $cur == --*=* ]]; then prev=${cur%%=*}; compset -P '*='; cur=$PREFIX; fi",
            "    case $context in",
            *(line for context in contexts for line in _zsh_context(context)),
            "    esac",
            "    case $kind in",
            "        (sessions|models)",
            '            line=$("${words[1]}" completion --values $kind 2>/dev/null)',
            '            for word in "${(@f)line}"; do',
            "                choices+=(\"${${word%%$'\\t'*}//:/\\\\:}:${word#*$'\\t'}\")",
            "            done",
            "            _describe -V -t $kind $kind choices ;;",
            "        (words) _describe -V -t values value choices ;;",
            "        (files) _files ;;",
            "        (folders) _files -/ ;;",
            "        (free) _message 'a value' ;;",
            "        (*) [[ $cur == -* ]] || _describe -V -t commands command offered_commands",
            "            [[ $cur == -* || ${#offered_commands} -eq 0 ]] &&",
            "                _describe -o -t flags flag offered_flags ;;",
            "    esac",
            "}",
            'if [[ "${funcstack[1]}" == _kode ]]; then _kode "$@"; else compdef _kode kode; fi',
            "",
        ]
    )


def _zsh_context(context: Context) -> list[str]:
    lines = [f"        ({_quoted(' '.join(context.words))})"]
    flags = " ".join(_zsh_told(flag.names, flag.help) for flag in context.flags)
    lines.append(f"            offered_flags=({flags})")
    told = " ".join(_zsh_told((name,), what) for name, what in context.commands)
    lines.append(f"            offered_commands=({told})")
    lines.append("            case $prev in")
    lines += [
        f"                ({'|'.join(flag.names)}) {_zsh_value(flag.value)} ;;"
        for flag in context.flags
        if flag.value.kind
    ]
    if context.argument.kind not in ("", "free"):
        lines.append(
            f"                (*) [[ $cur == -* ]] || {{ {_zsh_value(context.argument)} }} ;;"
        )
    return [*lines, "            esac ;;"]


def _zsh_told(names: Sequence[str], what: str) -> str:
    return " ".join(_quoted(f"{name}:{what}".replace("\n", " ")) for name in names)


def _zsh_value(value: Taken) -> str:
    if value.kind == "words":
        return f"kind=words; choices=({' '.join(map(_quoted, value.words))})"
    return f"kind={value.kind}"


def fish(contexts: Sequence[Context]) -> str:
    """The script for fish 3."""
    lines = [
        HEADER.format(shell="fish"),
        "function __kode_context",
        "    set -l context",
        "    set -l skip 0",
        "    for word in (commandline -opc)[2..-1]",
        "        if test $skip = 1",
        "            set skip 0",
        "            continue",
        "        end",
        "        switch $word",
        f"            case {' '.join(_valued(contexts))}",
        "                set skip 1",
        "            case '*'",
        '                switch "$context $word"',
        f"                    case {_patterns(contexts, ' ')}",
        '                        set context (string trim "$context $word")',
        "                end",
        "        end",
        "    end",
        '    test "$context" = "$argv[1]"',
        "end",
        "complete -c kode -f",
    ]
    for context in contexts:
        condition = f"__kode_context {_quoted(' '.join(context.words))}"
        here = f"complete -c kode -n {_fish_quoted(condition)}"
        lines += [
            f"{here} -a {_fish_quoted(name)} -d {_fish_quoted(what)}"
            for name, what in context.commands
        ]
        if context.argument.kind not in ("", "free"):
            lines.append(f"{here} {_fish_value(context.argument, argument=True)}")
        for flag in context.flags:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in flag.names
            )
            value = f" {_fish_value(flag.value)}" if flag.value.kind else ""
            lines.append(f"{here} {names}{value} -d {_fish_quoted(flag.help)}")
    return "\n".join([*lines, ""])


def _fish_value(value: Taken, *, argument: bool = False) -> str:
    required = "" if argument else "-x "
    match value.kind:
        case "words":
            return f"{required}-a {_fish_quoted(' '.join(value.words))}"
        case "sessions" | "models":
            return f"{required}-k -a {_fish_quoted(f'(kode completion --values {value.kind})')}"
        case "folders":
            return f"{required}-a '(__fish_complete_directories)'"
        case "files":
            return "-F" if argument else "-r -F"
        case _:
            return "" if argument else "-x"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _quoted(text: str) -> str:
    """In single quotes, as bash and zsh (and fish, for what has none in it) read them."""
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


def _valued(contexts: Sequence[Context]) -> list[str]:
    """Every flag that takes a value, anywhere."""
    names = (
        name
        for context in contexts
        for flag in context.flags
        if flag.value.kind
        for name in flag.names
    )
    return list(dict.fromkeys(names))


def _patterns(contexts: Sequence[Context], between: str = "|") -> str:
    """`CONTEXT WORD` for every word that leads to another context."""
    return between.join(
        _quoted(f"{' '.join(context.words[:-1])} {context.words[-1]}")
        for context in contexts
        if context.words
    )


SCRIPTS: Mapping[str, Callable[[Sequence[Context]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
