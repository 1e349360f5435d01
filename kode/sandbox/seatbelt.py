"""A profile for macOS's Seatbelt, made of a `Reach`, and how `sandbox-exec` applies it.

The last rule that matches decides, so the places keep their order. No path is part of the program
text: each is a parameter. Seatbelt compares real paths, as the file system spells them. There is no
loopback of its own, so only `all` gives a network: the machine's loopback has its services.
"""

import os
from collections.abc import Iterable, Sequence

from kode.sandbox.reach import RUN_BY_GIT, SEATBELT, Place, Reach
from kode.workplace import below

ENV = "/usr/bin/env"

_READ = "file-read* file-read-metadata file-test-existence"
_LOOK = "file-read-metadata file-test-existence"


def _each(kind: str, values: str) -> str:
    return " ".join(f'({kind} "{value}")' for value in values.split())


_SETTINGS = (
    "kern.argmax kern.boottime kern.hostname kern.maxfiles kern.maxfilesperproc kern.maxproc "
    "kern.ngroups kern.osproductversion kern.osrelease kern.ostype kern.osvariant_status "
    "kern.osversion kern.secure_kernel kern.sysv.semmni kern.usrstack64 kern.version "
    "sysctl.name2oid sysctl.oidfmt sysctl.proc_cputype sysctl.proc_native vm.loadavg"
)
"""Of the kernel. Not among them: the arguments and variables of other processes."""
_SERVICES = (
    "com.apple.bsd.dirhelper com.apple.logd com.apple.system.logger "
    "com.apple.system.notification_center com.apple.system.opendirectoryd.libinfo "
    "com.apple.system.opendirectoryd.membership"
)
"""What programs need to start. Not among them: those of keys, the clipboard, preferences and other
programs (Keychain, pasteboard, LaunchServices)."""
_SERVICES_OF_NETWORK = (
    "com.apple.SystemConfiguration.DNSConfiguration com.apple.SystemConfiguration.configd "
    "com.apple.dnssd.service com.apple.networkd com.apple.trustd com.apple.trustd.agent"
)
_READ_DEVICES = "/dev/null /dev/zero /dev/random /dev/urandom /dev/tty /dev/stdin"
_WRITTEN_DEVICES = "/dev/null /dev/zero /dev/tty /dev/stdout /dev/stderr"

_BASE = f"""(version 1)
(deny default)
(allow process-exec process-fork file-map-executable)
(allow process-info* signal (target same-sandbox))
(allow sysctl-read {_each("sysctl-name-prefix", "hw. machdep.cpu.")})
(allow sysctl-read {_each("sysctl-name", _SETTINGS)})
(allow mach-lookup {_each("global-name", _SERVICES)})
(allow ipc-posix-sem)
(allow ipc-posix-shm-read-data (ipc-posix-name "apple.shm.notification_center"))"""
_DEVICES = f"""(allow {_READ} (literal "/") {_each("literal", _READ_DEVICES)} (subpath "/dev/fd"))
(allow file-write-data {_each("literal", _WRITTEN_DEVICES)} (subpath "/dev/fd"))"""
_NETWORK = f"""(allow network-outbound (remote ip "*:*"))
(allow network-bind network-inbound (local ip "*:*"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow mach-lookup {_each("global-name", _SERVICES_OF_NETWORK)})"""
"""No unix sockets but that for names: those of Docker and ssh-agent lead out of the sandbox."""


def command(reach: Reach) -> tuple[str, ...]:
    """The beginning of the argument list of a command that may reach this and nothing else."""
    text, parameters = profile(reach)
    given = (word for name, path in parameters.items() for word in ("-D", f"{name}={path}"))
    return (SEATBELT, "-p", text, *given)


def profile(reach: Reach) -> tuple[str, dict[str, str]]:
    """The profile and its parameters, name → path. Touches no file."""
    names: dict[str, str] = {}

    def filters(paths: Iterable[str], *kinds: str) -> str:
        found = [
            (kind, names.setdefault(path, f"P{len(names)}")) for path in paths for kind in kinds
        ]
        return " ".join(f'({kind} (param "{name}"))' for kind, name in found)

    rules = [_BASE]
    for place in reach.places:
        rules += _rules(place, filters([str(place.path)], "literal", "subpath"))
    rules.append(_DEVICES)
    writable = [*map(str, reach.of("writable"))]
    temporary = filters([reach.temporary], "literal", "subpath")
    rules.append(f"(allow {_READ} file-write* {temporary})")
    rules.append(f"(allow {_LOOK} {filters(_above(reach), 'literal')})")
    rules.append(f"(deny file-write-unlink {filters(_held(reach, writable), 'literal')})")
    for path in writable:
        inside = filters([path], "subpath")
        rules += [
            f'(deny file-write* (require-all {inside} (regex #"{_OF_GIT}")))',
            "(deny file-write-create file-write-data file-write-unlink "
            f'(require-all {inside} (regex #"{_GIT}$")))',
        ]
    rules.append(_NETWORK if reach.network == "all" else "(deny network*)")
    return "\n".join(rules), {name: path for path, name in names.items()}


def _rules(place: Place, filters: str) -> Sequence[str]:
    match place.access:
        case "writable":
            return (f"(allow {_READ} file-write* {filters})",)
        case "readable":
            return (f"(allow {_READ} {filters})", f"(deny file-write* {filters})")
        case _:
            return (f"(deny {_READ} file-write* {filters})",)


def _above(reach: Reach) -> list[str]:
    """The folders above what may be read, which programs look up to find the real path of a file;
    the names in them stay hidden."""
    shown = (*map(str, reach.of("readable", "writable")), reach.temporary)
    return list(dict.fromkeys(parent for path in shown for parent in _parents(path)))


def _held(reach: Reach, writable: Sequence[str]) -> list[str]:
    """The writable folders, and the folders in them above a place that is not writable: moved
    away, that would have another path, and other rules."""
    others = map(str, reach.of("readable", "empty", "private", "hidden"))
    inside = [p for path in others for p in _parents(path) if any(below(p, w) for w in writable)]
    return list(dict.fromkeys((reach.temporary, *writable, *inside)))


def _parents(path: str) -> list[str]:
    parent = os.path.dirname(path)
    return [] if parent == path else [*_parents(parent), parent]


def _any_case(name: str) -> str:
    """A regular expression: most volumes ignore case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else f"[{c}]" for c in name)


_GIT = f"/{_any_case('.git')}"
# To the file system, some letters beyond ASCII equal a plain one: git needs none there.
_OF_GIT = f"{_GIT}/(.*/)?({'|'.join(map(_any_case, RUN_BY_GIT))}|[^/]*[^ -~][^/]*)(/|$)"
