import pytest
from web_side import web_side


@pytest.fixture
def side(tmp_path):
    """An exchange as it is out of the box."""
    with web_side(tmp_path) as side:
        yield side
