"""What stands here needs no server: a test that asks for one belongs to `tests/services`."""

import pytest


@pytest.fixture(scope="session")
def spark() -> None:
    """Refuse: see above."""
    pytest.fail("a test of tests/unit asks for a server: move it to tests/services")


@pytest.fixture(scope="session")
def shared_broker(spark: None) -> None:
    """Refuse."""


@pytest.fixture(scope="session")
def guarded_broker(spark: None) -> None:
    """Refuse."""


@pytest.fixture(scope="session")
def postgres_server(spark: None) -> None:
    """Refuse."""
