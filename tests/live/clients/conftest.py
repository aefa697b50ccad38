"""Both brokers, each open and guarded, once for all scripts."""

from contextlib import ExitStack
from functools import cache

import pytest

from live.clients.venues import STARTERS, Papers
from live.clients.with_aiomqtt import AiomqttClient, Loop


@pytest.fixture(scope="session")
def venues(tmp_path_factory):
    """The venues of a kind, started when it is first asked for."""
    papers = Papers(tmp_path_factory.mktemp("papers"))
    with ExitStack() as running:

        @cache
        def of(kind):
            folders = {name: tmp_path_factory.mktemp(f"{kind}-{name}") for name in STARTERS}
            started = (start(folders[name], papers, guarded=kind == "guarded") for name, start in STARTERS.items())
            return [running.enter_context(one) for one in started]

        yield of


@pytest.fixture(scope="session")
def asyncio_loop():
    AiomqttClient.loop = Loop()
    yield
    AiomqttClient.loop.stop()
