"""Unmodified clients see the same with Firelane as with mosquitto, and both what the specification says.

Each script is played at both brokers with the same client, version and names; what it observed must be what it expects
from the specification, and so be the same at both. `differences.py` lists where they differ, `CANNOT` of a client
what it cannot play.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from live.clients import scripts  # noqa: F401  (importing them puts them on the programme)
from live.clients.client import MQTT_5, MQTT_311
from live.clients.differences import DIFFERENCES, expected_of
from live.clients.stage import SCRIPTS, Stage
from live.clients.with_aiomqtt import AiomqttClient
from live.clients.with_paho import PahoClient
from live.clients.with_tools import ToolsClient

pytestmark = [
    pytest.mark.slow,
    # paho leaves the socket of a failed TLS handshake to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning"),
]

CLIENTS = (PahoClient, AiomqttClient, ToolsClient)
VERSIONS = {MQTT_311: "3.1.1", MQTT_5: "5"}


def parts(script):
    """With whom and in which version a script can be played."""
    able = [kind for kind in CLIENTS if not set(script.needs) & set(kind.CANNOT)]
    return [(kind, version) for kind in able for version in script.versions]


@pytest.fixture(scope="module")
def performances(venues):
    """All performances of a script, at both brokers, at the same time: most of it is waiting."""

    def play(script, kind, version, venue):
        with Stage(venue, kind, version, f"{script.name}-{kind.__name__}-{version}") as stage:
            return script.play(stage)

    with ThreadPoolExecutor(2 * len(CLIENTS) * len(VERSIONS)) as pool:

        @cache
        def of(script):
            return {
                (kind, version): {
                    venue.broker: pool.submit(play, script, kind, version, venue) for venue in venues(script.venue)
                }
                for kind, version in parts(script)
            }

        yield of


@pytest.mark.usefixtures("asyncio_loop")
@pytest.mark.parametrize(
    ("script", "kind", "version"),
    [
        pytest.param(script, kind, version, id=f"{script.name}-{kind.__name__}-{VERSIONS[version]}")
        for script in SCRIPTS
        for kind, version in parts(script)
    ],
)
def test_both_brokers_show_what_the_script_expects(script, kind, version, performances):
    for broker, performance in performances(script)[kind, version].items():
        observed, expected = performance.result()
        assert observed == expected_of(broker, script.name, version, expected), broker


def test_every_script_is_played_with_paho_at_least():
    assert not PahoClient.CANNOT


def test_what_scripts_need_is_what_some_client_lacks():
    lacking = set().union(*(kind.CANNOT for kind in CLIENTS))
    needed = set().union(*(script.needs for script in SCRIPTS))
    assert needed == lacking


def test_every_difference_belongs_to_a_script_and_is_one():
    versions = {script.name: script.versions for script in SCRIPTS}
    for (script, _, version), difference in DIFFERENCES.items():
        assert version in versions[script]
        assert difference.mosquitto != difference.firelane
