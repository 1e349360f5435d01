"""Many tasks: a durable queue, the workers that take from it, and what came of each task.

    records       the lines of a queue: tasks, leases, starts, results
    state         lines → where every task stands: a pure function
    queue         the folder: append under a lock, take a task, record what came of it
    tasks         a file of tasks, or a template over repositories → tasks
    trees         a work tree of its own for each task, and the patch it ends as
    child         one `kode run` process: its command line, what it said, what its session says
    worker        takes a task, makes its tree, runs the child, verifies, records
    executors     where workers run: in this process, or elsewhere
    ray           elsewhere: on the nodes of a Ray cluster
    collect       patches → text, branches, commits
    report        what status and results show

The unit is one `kode run` process a task. What a task cost and did is in its session; this room
schedules processes and reads sessions, and runs no turn itself.
"""
