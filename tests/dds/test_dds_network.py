"""What cannot be is told in one line, and never by the end of the process."""

import subprocess
import sys

import pytest
from dds_rooms import QUICK

from dds_domains import some_domain
from firelane.dds import DdsError, Network, Participant, Reader, SensorUpdates, Writer


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"interface": "nowhere0"}, 'no network interface "nowhere0"; choose from: '),
        ({"interface": "192.0.2.7"}, "no network interface has the address 192.0.2.7"),
        ({"peers": ("no such host.invalid",)}, 'the peer "no such host.invalid" cannot be found'),
        ({"peers": ('"/><Tracing/>',)}, "cannot be found"),
        ({"peers": ("x" * 300,)}, "cannot be found"),
    ],
)
def test_networks_that_are_not_there(network, words):
    with pytest.raises(DdsError, match=words) as told, Participant(some_domain(), Network(**network)):
        pass
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("settings", [{"lease_s": 0}, {"lease_s": float("nan")}, {"loss": 1.1}, {"loss": float("nan")}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(DdsError, match="must be"):
        Network(**settings)


@pytest.mark.parametrize("domain", [-1, 231])
def test_domains_that_are_none(domain):
    with pytest.raises(DdsError, match=f"there is no domain {domain}"), Participant(domain):
        pass


def test_a_closed_participant_is_told():
    with Participant(some_domain(), QUICK) as participant:
        writer = Writer(participant, "closed")
        reader = Reader(participant, "closed")
    for act in (lambda: Writer(participant, "closed"), writer.statistics, reader.take,
                lambda: writer.send(SensorUpdates(stream="a", payload=b""))):  # fmt: skip
        with pytest.raises(DdsError, match="closed"):
            act()


@pytest.mark.parametrize("history", [0, -1, 2_000_000])
def test_histories_that_are_none(history):
    with Participant(some_domain(), QUICK) as participant, pytest.raises(DdsError, match="a history must keep"):
        Writer(participant, "history", history=history)


def test_topics_that_cannot_be():
    with Participant(some_domain(), QUICK) as participant, pytest.raises(DdsError, match='no topic ""'):
        Writer(participant, "")


def test_a_missing_library_is_one_line():
    code = "import sys; sys.modules['cyclonedds'] = None; import firelane.dds"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "FirelaneError: DDS needs cyclonedds" in done.stderr.splitlines()[-1]
    assert "pip install 'firelane[dds]'" in done.stderr.splitlines()[-1]
