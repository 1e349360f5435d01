"""Small programs inside commands: sed scripts, awk programs, jq filters. Is one a plain filter?

Everything that is not surely harmless is not. Nothing is run.
"""

import re

_SED_ADDRESS = re.compile(r"(?:\d+(?:~\d+)?|\$|\+\d+|~\d+|/(?:[^/\\\n\[]|\\.|\[[^\]\n]*\])*/[IM]*)")


def sed_is_plain(script: str) -> bool:
    """Whether a sed script only edits the stream: no `e`, `w`, `r`, `W`, `R`."""
    position, end = 0, len(script)
    while position < end:
        if script[position] in " \t\n;{}":
            position += 1
            continue
        if script[position] == "#":
            position = _line_end(script, position)
            continue
        position = _after_addresses(script, position)
        if position >= end:
            return False
        command = script[position]
        position += 1
        if command in "pdnNgGhHxDPqQ=lFz{}":
            match = re.compile(r"\s*\d*\s*").match(script, position)
            position = match.end() if match else position
            if position < end and script[position] not in ";\n}#":
                return command == "{" and sed_is_plain(script[position:])
        elif command in "btT:":
            # GNU ends a label at `;`, others at the line's end.
            position += len(re.split(r"[;\n]", script[position:], maxsplit=1)[0])
        elif command in "aic":
            position = _line_end(script, position)
            while position > 0 and script[position - 1 : position] == "\\" and position < end:
                position = _line_end(script, position + 1)
        elif command in "sy":
            after = _after_substitution(script, position, flags=command == "s")
            if after is None:
                return False
            position = after
        else:
            return False
    return True


def _line_end(script: str, position: int) -> int:
    found = script.find("\n", position)
    return len(script) if found < 0 else found


def _after_addresses(script: str, position: int) -> int:
    match = _SED_ADDRESS.match(script, position)
    if match is None:
        return position
    position = match.end()
    comma = re.compile(r"\s*,\s*").match(script, position)
    if comma is not None:
        second = _SED_ADDRESS.match(script, comma.end())
        if second is not None:
            position = second.end()
    bang = re.compile(r"\s*!?\s*").match(script, position)
    return bang.end() if bang else position


def _after_substitution(script: str, position: int, *, flags: bool) -> int | None:
    if position >= len(script):
        return None
    delimiter = script[position]
    if delimiter in "\\\n":
        return None
    position += 1
    for _ in range(2):
        while position < len(script) and script[position] != delimiter:
            position += 2 if script[position] == "\\" else 1
        if position >= len(script):
            return None
        position += 1
    match = re.compile(r"[gpiIM\d]*" if flags else r"").match(script, position)
    position = match.end() if match else position
    rest = re.compile(r"[ \t]*").match(script, position)
    position = rest.end() if rest else position
    if position < len(script) and script[position] not in ";\n}#":
        return None
    return position


def awk_is_plain(program: str) -> bool:
    """Whether an awk program only reads and prints: no `system`, pipes, files or loaded code."""
    if re.search(r"\b(?:system|getline|ENVIRON|SYMTAB|FUNCTAB|ARGV|ARGC)\b|@|/inet", program):
        return False
    program = re.sub(r"(\\|,|&&|\|\|)[ \t]*\n", r"\1 ", program).replace("\\ ", " ")
    text = _awk_without_texts(program)
    if text is None or re.search(r"(?<!\|)\|(?!\|)", text):
        return False
    return re.search(r"\bprintf?\b[^;}\n]*>", text) is None


_AWK_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_AWK_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]\n]*\])*/")


def _awk_without_texts(program: str) -> str | None:
    """The program without its strings, regular expressions and comments; None when it is not sure
    which is which."""
    out, position = "", 0
    while position < len(program):
        c = program[position]
        pattern = _AWK_TEXT if c == '"' else _AWK_REGEX if c == "/" else None
        if c == "#":
            position = _line_end(program, position)
            continue
        if c == "/":
            before = out.rstrip(" \t")[-1:]
            if before and before not in "(,{;}!~&|\n?:":
                if '"' in program[position : _line_end(program, position)]:
                    return None
                pattern = None
        match = pattern.match(program, position) if pattern else None
        if pattern is not None and match is None:
            return None
        out += "0" if match else c
        position = match.end() if match else position + 1
    return out


def jq_is_plain(program: str) -> bool:
    """Whether a jq or yq filter stays with its input: no environment, no other files."""
    return (
        re.search(
            r"\benv\b|\$ENV|\bimport\b|\binclude\b|\bload\w*\b|\bstrenv\b|\benvsubst\b|\bsystem\b"
            r"|\bget_search_list\b|\bmodulemeta\b|\beval\b",
            program,
        )
        is None
    )
