"""Entries appended by several processes at once."""

import asyncio
import os

from tests.memory.vault.life import file, opened, use


async def append_five(root, writer):
    system = await opened(root)
    for number in range(5):
        entry = f"## {writer}{number}\n" + f"- line of {writer}{number}\n" * 20
        await use(system, "memory_append", path="episodes/2026-03.md", entry=entry)


def test_twenty_appends_of_four_processes_leave_twenty_whole_entries(tmp_path):
    children = []
    for writer in "abcd":
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(append_five(tmp_path, writer))
            except BaseException:
                os._exit(7)
            os._exit(0)
        children.append(child)

    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    text = file(tmp_path, "episodes/2026-03.md").read_text()
    assert codes == [0] * 4
    assert text.count("\n## ") == 20
    for writer in "abcd":
        for number in range(5):
            assert f"## {writer}{number}\n" + f"- line of {writer}{number}\n" * 20 in text
