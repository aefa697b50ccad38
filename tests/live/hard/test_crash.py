"""What was acknowledged survives `kill -9`, at whatever moment it comes."""

from __future__ import annotations

import asyncio

import pytest

from live.brokers import firelane, mosquitto
from live.hard.killing import killed_under_load


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_acknowledged_message_is_lost_or_qos_2_message_repeated_by_a_kill(tmp_path, seed):
    with firelane(tmp_path) as broker:
        account = asyncio.run(killed_under_load(broker, rounds=1, seed=seed))
    assert_nothing_lost(account)


@pytest.mark.soak
def test_nor_by_fifty_kills_at_random_moments(tmp_path):
    with firelane(tmp_path) as broker:
        account = asyncio.run(killed_under_load(broker, rounds=50, seed=4))
    assert_nothing_lost(account)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [firelane, mosquitto])
def test_side_by_side_with_mosquitto(tmp_path, kind, record_property):
    """Mosquitto with its persistence on and saving as often as it does by default; nothing is asked of it."""
    with kind(tmp_path, **({"persistence": True} if kind is mosquitto else {})) as broker:
        account = asyncio.run(killed_under_load(broker, rounds=2, seed=5))
    print(f"{broker.name}: {account}")
    record_property("account", str(account))
    if kind is firelane:
        assert_nothing_lost(account)


def assert_nothing_lost(account):
    print(account)
    assert account.accepted > 0
    assert (account.lost, account.twice, account.out_of_order) == (0, 0, 0)
