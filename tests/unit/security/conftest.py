import pytest

from fencepost.security.authority import Authority, Certified


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def broker(authority: Authority) -> Certified:
    return authority.issue("broker", ["localhost", "127.0.0.1"])


@pytest.fixture(scope="session")
def alice(authority: Authority) -> Certified:
    return authority.issue("alice")
