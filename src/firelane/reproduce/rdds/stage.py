"""The processes of a run: an exchange, the measured device under a quota, and all other firefighters."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firelane.errors import FirelaneError
from firelane.reproduce.rdds.play import Setting
from firelane.reproduce.rdds.quota import Quota, quota
from firelane.reproduce.rdds.worker import Results, Worker, WorkerError, worker
from firelane.scenario import from_data
from firelane.scenario.plan import plain_plan
from firelane.scenario.routes import routes
from firelane.served import HOST, Exchange, served

LEAD_S, LEAD_EACH_S, LEAD_SENSOR_S = 0.8, 0.025, 2e-4  # until a run begins: to connect, and to learn all states
ATTEMPTS = 3


@dataclass(slots=True, kw_only=True)
class Stage:
    """What is needed for runs; one at a time."""

    exchange: Exchange
    device: Worker
    peers: Worker
    quota: Quota | None
    fires: Path

    def run(self, *, participants: int, sensors: int, interval_s: float, **more: Any) -> Results:
        """What the measured device saw in a run. It has `cores` of a core, if the system lets us."""
        least_s = LEAD_S + participants * (LEAD_EACH_S + sensors * LEAD_SENSOR_S)
        for attempt in range(ATTEMPTS):
            lead = least_s * 2**attempt
            setting = Setting(
                broker=f"mqtt://{HOST}:{self.exchange.mqtt_port}",
                fires=self.fires,
                begin_at=_between_readings(time.monotonic() + lead, interval_s),
                interval_s=interval_s,
                participants=participants,
                sensors=sensors,
                **more,
            )
            with suppress(WorkerError):
                results = self._attempt(setting)
                if results["known"]:
                    return results
        raise FirelaneError("the firefighters of a run were not ready in time; is this machine busy with other things?")

    def _attempt(self, setting: Setting) -> Results:
        if self.quota is not None:
            self.quota.set(None if setting.cores >= 1 else setting.cores)
        started, exchange_s = time.monotonic(), self.exchange.processor_s() or 0.0
        self.peers.begin(setting)
        self.device.begin(setting)
        within_s = setting.end_at - time.monotonic()
        try:
            results = self.device.results(within_s)
        finally:
            others = self.peers.results(within_s)
        used_s = (self.exchange.processor_s() or 0.0) - exchange_s
        return results | {
            "participants": setting.participants,
            "sensors": setting.sensors,
            "model": setting.model,
            "apart": setting.apart,
            "period_s": setting.period_s,
            "interval_s": setting.interval_s,
            "peers": others,
            "exchange_load": used_s / (time.monotonic() - started),
        }


def _between_readings(at: float, interval_s: float) -> float:
    """The next moment that is as far as possible from readings of the measured device."""
    return (math.ceil(at / interval_s) + 0.5) * interval_s


@contextmanager
def staged(fires: Path, *, load_period_s: float) -> Iterator[Stage]:
    """Everything started, until the block ends."""
    scenario = from_data({"name": "rdds"})
    with (
        served(scenario, plain_plan(routes(scenario)), settings=(f"sense.load_period={load_period_s:g}s",)) as exchange,
        quota() as limit,
        worker("device", "the measured device") as device,
        worker("peers", "the other firefighters") as peers,
    ):
        if limit is not None:
            limit.add(device.pid)
        yield Stage(exchange=exchange, device=device, peers=peers, quota=limit, fires=fires)
