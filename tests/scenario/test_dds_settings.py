"""Settings of an edge's bridge to DDS."""

import pytest

from firelane.errors import FirelaneError
from firelane.scenario.load import from_data


def settings(**dds):
    return from_data({"name": "x", "exchange": {"overlay": {"dds": dds}}}).exchange.overlay.dds


def test_what_is_said_and_what_is_not():
    assert from_data({"name": "x", "exchange": {"overlay": {}}}).exchange.overlay.dds is None
    plain = settings()
    assert (plain.root, plain.topics, plain.interface, plain.lease_s) == ("dds/0", ("*",), "127.0.0.1", 10.0)
    other = settings(domain=7, topics=["rt/*"], lease="500 ms", peers=["10.0.0.2"], multicast=True)
    assert (other.root, other.topics, other.lease_s, other.peers) == ("dds/7", ("rt/*",), 0.5, ("10.0.0.2",))
    assert settings(domain=7, prefix="plant/dds").root == "plant/dds"


@pytest.mark.parametrize(
    "wrong",
    [{"domain": 231}, {"domain": -1}, {"domain": "0"}, {"prefix": ""}, {"prefix": "a/+"}, {"prefix": "$dds"},
     {"prefix": "a/"}, {"prefix": "a/#"}, {"lease": "0.1 s"}, {"topics": [""]}, {"interfaces": "eth0"}],
)  # fmt: skip
def test_what_cannot_be(wrong):
    with pytest.raises(FirelaneError, match=r"overlay\.dds") as told:
        settings(**wrong)
    assert "\n" not in str(told.value)
