"""`kode doctor --sandbox`: attempts to get out of this machine's sandbox. See `proof`."""

from kode.plugin import Plugin

PLUGIN = Plugin(
    name="proof",
    summary="proves the sandbox: runs commands in it that must not get out",
    proofs={"sandbox": "kode.plugins.proof.proof:prove"},
)
