"""Addresses at which brokers say that they can be reached."""

from __future__ import annotations

import pytest

from firelane.overlay.joining import Joining
from firelane.overlay.paths.locator import host_and_port


@pytest.mark.parametrize(
    ("locator", "place"),
    [
        ("10.0.0.5:1883", ("10.0.0.5", 1883)),
        ("site-a.example:65535", ("site-a.example", 65_535)),
        ("[2001:db8::7]:1", ("2001:db8::7", 1)),
        ("[fe80::1%eth0]:1883", ("fe80::1%eth0", 1883)),
    ],
)
def test_what_can_be_connected_to(locator, place):
    assert host_and_port(locator) == place
    assert Joining(role="edge", registry="memory://x", name="x", locator=locator).locator == locator
