"""A desk for every test that wants one."""

from __future__ import annotations

import pytest
from desk import Desk

from firelane.mqtt.packets import V3, V5


@pytest.fixture
def make_desk(tmp_path):
    """Makes brokers driven by hand."""
    made = []

    def make(**settings):
        made.append(Desk(tmp_path / f"log{len(made)}", **settings))
        return made[-1]

    yield make
    for desk in made:
        desk.stop()


@pytest.fixture
def desk(make_desk):
    return make_desk()


@pytest.fixture(params=[V3, V5], ids=["3.1.1", "5"])
def version(request):
    return request.param
