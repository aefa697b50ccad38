"""The source `mqtt` of Spark, with a real broker."""

from __future__ import annotations

import time

import pytest

from firelane.errors import FirelaneError
from firelane.pipeline.mqtt import notes
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.segments import firsts
from firelane.pipeline.mqtt.session import BrokerSession, Wishes
from live.brokers import free_port, mosquitto

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path):
    (tmp_path / "broker").mkdir()
    with mosquitto(tmp_path / "broker") as started:
        yield started


def record(number):
    return f'{{"record_id":"00aa-{number:012d}"}}'.encode()


def publish(broker, payloads, topic="t/x"):
    with BrokerSession(Address(host=broker.host, port=broker.port), Wishes(client_id="publisher")) as session:
        session.publish([(topic, one) for one in payloads])


class Reading:
    """A query that keeps what it reads, batch by batch."""

    def __init__(self, spark, folder, checkpoint, port, **options):
        from firelane.pipeline.mqtt.source import register

        register(spark)
        given = {"host": "127.0.0.1", "port": str(port), "topic": "t/#", "client_id": "q", "folder": str(folder)}
        self.batches = {}
        table = spark.readStream.format("mqtt").options(**given, **options).load()
        writing = table.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(checkpoint))
        self.query = writing.trigger(processingTime="200 milliseconds").start()

    def _keep(self, batch, number):
        self.batches[number] = [(one.topic, bytes(one.payload)) for one in batch.collect()]

    @property
    def payloads(self):
        return [payload for number in sorted(self.batches) for _, payload in self.batches[number]]

    def until(self, count, seconds=60.0):
        deadline = time.monotonic() + seconds
        while len(self.payloads) < count:
            assert self.query.exception() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def end(self):
        while self.query.status["isTriggerActive"]:
            time.sleep(0.01)
        self.query.stop()


def test_a_query_reads_all_messages_once_and_goes_on_where_it_was(spark, broker, tmp_path):
    first = Reading(spark, tmp_path / "log", tmp_path / "checkpoint", broker.port)
    publish(broker, [])
    until_connected(tmp_path / "log")
    publish(broker, [record(n) for n in range(50)])
    first.until(50)
    assert {topic for batch in first.batches.values() for topic, _ in batch} == {"t/x"}
    first.end()
    publish(broker, [record(n) for n in range(50, 80)])  # the broker keeps these
    again = Reading(spark, tmp_path / "log", tmp_path / "checkpoint", broker.port)
    again.until(30)
    again.end()
    assert first.payloads + again.payloads == [record(n) for n in range(80)]


def test_two_queries_read_the_same_log_and_it_is_trimmed_behind_both(spark, broker, tmp_path):
    folder = tmp_path / "log"
    options = {"readers": "one,two", "cap": "200 kB", "batch": "50 kB"}
    one = Reading(spark, folder, tmp_path / "one", broker.port, reader="one", **options)
    until_connected(folder)
    payloads = [record(n) + b" " * 1000 for n in range(150)]
    publish(broker, payloads)
    one.until(150)
    assert firsts(folder)[0] == 0  # the other one may still come
    two = Reading(spark, folder, tmp_path / "two", broker.port, reader="two", **options)
    two.until(150)
    more = [record(n) + b" " * 1000 for n in range(150, 400)]  # more than fits
    publish(broker, more)
    one.until(400)
    two.until(400)
    one.end()
    two.end()
    assert one.payloads == two.payloads == payloads + more
    assert firsts(folder)[0] > 0
    assert max(len(batch) for batch in two.batches.values()) <= 70  # 50 kB, or what came at once: 64 kB


def test_a_log_that_does_not_belong_to_the_checkpoint_is_refused(spark, broker, tmp_path):
    from pyspark.errors import StreamingQueryException

    first = Reading(spark, tmp_path / "log", tmp_path / "checkpoint", broker.port)
    until_connected(tmp_path / "log")
    publish(broker, [record(1)])
    first.until(1)
    first.end()
    other = Reading(spark, tmp_path / "other", tmp_path / "checkpoint", broker.port)
    with pytest.raises(StreamingQueryException, match="not the log that the query has read so far"):
        other.query.awaitTermination(60)


def test_a_broker_that_is_not_there_ends_the_query_with_a_line(spark, tmp_path):
    from pyspark.errors import StreamingQueryException

    port = free_port()
    reading = Reading(spark, tmp_path / "log", tmp_path / "checkpoint", port)
    with pytest.raises(StreamingQueryException, match=f"BrokerError: mqtt://127.0.0.1:{port}: connection refused"):
        reading.query.awaitTermination(60)


GOOD = {"host": "h", "topic": "t", "client_id": "c", "folder": "f"}


@pytest.mark.parametrize("name", list(GOOD))
def test_a_missing_option_is_named(name):
    from firelane.pipeline.mqtt.source import Settings

    with pytest.raises(FirelaneError, match=f"the source mqtt needs the option {name}$"):
        Settings.of({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize("wrong", [{"cap": "much"}, {"batch": "-1"}, {"expiry": "soon"}, {"port": "x"}])
def test_a_wrong_option_is_told_in_a_line(wrong):
    from firelane.pipeline.mqtt.source import Settings

    with pytest.raises(FirelaneError, match="an option of the source mqtt is wrong"):
        Settings.of(GOOD | wrong)


def until_connected(folder, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (folder / "state").exists() or not (notes.state(folder) or {}).get("connected"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
