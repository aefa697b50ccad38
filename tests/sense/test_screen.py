"""What `sense watch` shows fits a narrow terminal, whatever topics are called."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from firelane.sense.offer import Offer
from firelane.sense.screen import StreamsScreen
from firelane.sense.sending import SendingStream
from firelane.sense.subscriber import FollowedStream

LONG = "building/3/east-wing/floor-2/room-17/temperature"


def followed(topic: str, *, told: bool = True) -> FollowedStream:
    offer = Offer(boot=1, sensors=("T1", "T2"), precision=0.5)
    stream = FollowedStream(topic, lambda: 0.0)
    stream.offered(offer)
    if told:
        stream.take(SendingStream(offer).observe(0.0, np.array([20.25, 30.0]))[0], 0.0)
    return stream


def shown(width: int, *streams: FollowedStream) -> list[str]:
    text = io.StringIO()
    sensors = SimpleNamespace(streams={one.topic: one for one in streams})
    with StreamsScreen(Console(file=text, width=width)) as screen:
        screen.show(sensors, 0.0)
    return text.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_topic_leaves_room_for_the_rest(width):
    heading, _, long, short = shown(width, followed(LONG), followed("house"))
    assert heading.split() == ["stream", "sensors", "within", "updates", "missed", "state", "now"]
    assert long.startswith("building/3")
    assert "temperature" in long
    assert short.split()[:6] == ["house", "2", "0.5", "2", "0", "good"]
    assert "T1 20.25" in short


def test_what_is_not_known_yet_is_no_number():
    assert "T1 ?  T2 ?" in shown(120, followed("house", told=False))[2]
    assert "none offered yet" in shown(80)[2]
