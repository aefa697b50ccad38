"""Telemetry: a record of what came of deliveries and of who subscribed, for those who look at it later or elsewhere.

    recorder = Recorder(sampling=settings.sampling)
    next_sampled = sequence + recorder.gap()                # of publications, one after the other
    recorder.delivery(..., delay_s, "delivered", weight)    # of a sampled one, with the weight of then
    recorder.delivery(..., None, "overflow")                # every drop, sampled or not
    recorder.membership(now_s, client, filter, "subscribe")

    with Writer(data_dir / "telemetry", settings, exchange=name, boot=boot, tell=tell) as writer:
        writer.put(recorder.take(now_s, wall_s))            # once a second, also when nothing happened

`records` says what a record is, `recorder` notes them on the event loop, `tables` turns them into Arrow, `writer` is
the thread that does so, `folder` keeps the Parquet files, `payloads` makes messages of records.
"""

from firelane.exchange.telemetry.recorder import Recorder, Taken
from firelane.exchange.telemetry.writer import Writer

__all__ = ["Recorder", "Taken", "Writer"]
