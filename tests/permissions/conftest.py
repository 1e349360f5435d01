from tests.permissions.gates import room  # noqa: F401
