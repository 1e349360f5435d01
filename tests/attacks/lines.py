"""The lines that attack: those of the data file, and variants of a few."""

import json
import shlex
from pathlib import Path

DATA = Path(__file__).parent / "data/lines.jsonl"


def listed() -> list[str]:
    """The lines of the data file, but for those that are known to have an effect."""
    with DATA.open(encoding="utf-8") as file:
        rows = [json.loads(row) for row in file]
    return [row["line"] for row in rows if "known" not in row]


# ── variants ─────────────────────────────────────────────────────────────────────────────────

_DEEDS = (
    "touch /srv/outside/pwn",
    "cp evil.sh .git/hooks/pre-commit",
    "cat .env config/secrets.pem",
    "curl -s --max-time 1 http://outside.test/",
    "rm -rf ../Documents",
    "kill -USR1 $(cat /run/outside.pid)",
    "sort --o=../.kode/config.json README.md",
)

_FORMS = r"""
{0}|({0})|{{ {0}; }}|! {0}|time {0}|{0} &|{0} & wait|ls; {0}|ls && {0}|{0} 2>&1
false {pipe}{pipe} {0}|{0} > /dev/null|set -x; {0}|set -e; {0}|cd src/..; {0}
pushd . > /dev/null; {0}|A=1 {0}|LS_COLORS= {0}|echo $({0})|echo `{0}`|echo "$({0})"|cat <({0})
bash <<< {1}|bash -c {1}|sh -c {1}|dash -c {1}|bash -lc {1}|bash -ec {1}|eval {1}|eval -- {1}
trap {1} EXIT|trap -- {1} 0|printf %s {1} {pipe} sh|command {0}|builtin eval {1}|exec {0}
exec -a ls {0}|env {0}|env -i PATH=$PATH {0}|env -u X {0}|env -S {1}|env - {0}|nice {0}
nice -n 1 {0}|nohup {0}|setsid {0}|timeout 2 {0}|stdbuf -o0 {0}|timeout -s KILL 2 {0}|ionice {0}
taskset -c 0 {0}|chrt 0 {0}|unshare -r {0}|xargs -a /dev/null {0}|echo {pipe} xargs -I% {0}
echo {pipe} xargs sh -c {1}|ls {pipe} {0}|{0} {pipe} cat|coproc {0}; wait
find README.md -exec {0} \;|find README.md -exec sh -c {1} \;|if {0}; then :; fi
while ! {0}; do break; done|for i in 1; do {0}; done|case x in *) {0};; esac|f() {{ {0}; }}; f
[ x ] && {0}|[[ x ]] && {0}|(( 1 )) && {0}|x=$({0})|export x=$({0})|local x=$({0})
echo $(( $({0}) + 1 ))|a[$({0})]=1|[[ -v a[$({0})] ]]|echo ${{x:-$({0})}}
awk 'BEGIN {{ system(ARGV[1]) }}' {1}|python3 -c 'import os, sys; os.system(sys.argv[1])' {1}
perl -e 'system $ARGV[0]' {1}|node -e 'require("child_process").execSync(process.argv[1])' {1}
sed "1e {0}" README.md|make -f /dev/null --eval='x: ; '{1} x|git -c alias.x='!'{1} x
echo {1} > /tmp/x; sh /tmp/x|source <(echo {1})|. /dev/stdin <<< {1}|script -qc {1} /dev/null
tar cf /dev/null README.md --checkpoint=1 --checkpoint-action=exec={1}
git -c core.fsmonitor={1} status|PAGER={1} git -p log
"""
"""`{0}` is the deed, `{1}` the deed as one quoted word, `{pipe}` a bar."""

_OF_LINES = ("ls\n{0}", "cat <<E\n$({0})\nE", "bash <<'E'\n{0}\nE", "{0} #\n{0}")


def _spellings(deed: str) -> list[str]:
    name, _, rest = deed.partition(" ")
    coded = "".join(f"\\x{ord(c):02x}" for c in name)
    return [
        deed,
        f"{name[0]}''{name[1:]} {rest}",
        f"\\{deed}",
        f"$'{coded}' {rest}",
        f"/bin/../usr/bin/{deed}",
        f"$(echo {name}) {rest}",
        f"{name}${{IFS}}{rest}",
    ]


def variants() -> list[str]:
    """Every deed in every spelling and form."""
    forms = [*(form for row in _FORMS.split("\n") for form in row.split("|") if form), *_OF_LINES]
    return [
        form.format(text, shlex.quote(text), pipe="|")
        for deed in _DEEDS
        for text in _spellings(deed)
        for form in forms
    ]
