from tests.permissions.gates import gates  # noqa: F401
