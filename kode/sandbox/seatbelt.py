"""A profile for macOS's Seatbelt, made of a `Reach`, and how `sandbox-exec` applies it.

The last rule that matches decides, so the places keep their order. No path is part of the program
text: each is a parameter. Seatbelt compares real paths, as the file system spells them. There is no
loopback of its own, so only `all` gives a network: the machine's loopback has its services.
"""

from collections.abc import Iterable
from pathlib import Path

from kode.sandbox.reach import RUN_BY_GIT, SEATBELT, Access, Reach

ENV = "/usr/bin/env"

_LOOK = "file-read-metadata file-test-existence"
_READ = f"file-read* {_LOOK}"
_MAKE = "file-write-create file-write-data file-write-unlink"
_RULES: dict[Access, tuple[str, ...]] = {
    "writable": (f"allow {_READ} file-write*",),
    "readable": (f"allow {_READ}", "deny file-write*"),
}
"""What holds in a place; in any other nothing is allowed."""


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


def _any_case(name: str) -> str:
    """A regular expression: most volumes ignore case."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else f"[{c}]" for c in name)


_GIT = f"/{_any_case('.git')}"
# To the file system, some letters beyond ASCII equal a plain one: git needs none there.
_OF_GIT = f"{_GIT}/(.*/)?({'|'.join(map(_any_case, RUN_BY_GIT))}|[^/]*[^ -~][^/]*)(/|$)"


def command(reach: Reach) -> tuple[str, ...]:
    """The beginning of the argument list of a command that may reach this and nothing else."""
    text, parameters = profile(reach)
    options = (word for name, path in parameters.items() for word in ("-D", f"{name}={path}"))
    return (SEATBELT, "-p", text, *options)


def profile(reach: Reach) -> tuple[str, dict[str, str]]:
    """The profile and its parameters, name → path. Touches no file."""
    names: dict[Path, str] = {}

    def filters(paths: Iterable[Path], *kinds: str) -> str:
        pairs = ((kind, names.setdefault(p, f"P{len(names)}")) for p in paths for kind in kinds)
        return " ".join(f'({kind} (param "{name}"))' for kind, name in pairs)

    rules, writable = [_BASE], reach.of("writable")
    for place in reach.places:
        each = _RULES.get(place.access, (f"deny {_READ} file-write*",))
        rules += [f"({rule} {filters([place.path], 'literal', 'subpath')})" for rule in each]
    # Programs look up the folders above what is shown; the names in them stay hidden.
    shown = reach.of("readable", "writable")
    above = dict.fromkeys(parent for path in shown for parent in path.parents)
    rules.append(_DEVICES)
    rules.append(f"(allow {_LOOK} {filters(above, 'literal')})")
    # Moved away, what is in a writable folder, but not writable, would have another path.
    fixed = reach.of("readable", "empty", "private", "hidden")
    held = {p for path in fixed for p in path.parents if any(p.is_relative_to(w) for w in writable)}
    rules.append(f"(deny file-write-unlink {filters((*writable, *held), 'literal')})")
    for path in writable:
        inside = filters([path], "subpath")
        rules += [
            f'(deny file-write* (require-all {inside} (regex #"{_OF_GIT}")))',
            f'(deny {_MAKE} (require-all {inside} (regex #"{_GIT}$")))',
        ]
    rules.append(_NETWORK if reach.network == "all" else "(deny network*)")
    return "\n".join(rules), {name: str(path) for path, name in names.items()}
