"""The same of the suite of memory as a folder."""

import pytest

from tests.contracts.test_memory_folder import *  # noqa: F403

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sampled(of=3),
    pytest.mark.usefixtures("on_a_server"),
]

# Its examples begin with empty folders, and would meet what the ones before put on the server.
del test_a_file_reads_as_a_plain_one_after_any_commands  # noqa: F821
