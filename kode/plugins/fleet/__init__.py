"""`kode fleet`: runs many tasks from a durable queue, and collects their changes.

command     the command line; the status and results of a queue
tasks       reads tasks from a file
queue       the queue's folder and records: leases tasks and records results, under a lock
worker      leases a task, makes its worktree, runs and checks it, records the result
trees       a worktree per task; its changes as a patch or a branch
ray         workers on the nodes of a Ray cluster
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="fleet",
    summary="many tasks from a durable queue",
    commands={
        "fleet": Command(
            run="kode.plugins.fleet.command:main",
            summary="run many tasks from a durable queue and collect the changes",
        )
    },
)
