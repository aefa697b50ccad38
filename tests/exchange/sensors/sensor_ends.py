"""Streams of sensors over a broker that is driven by hand: a publisher's and a subscriber's end of a line."""

from __future__ import annotations

import numpy as np

from firelane.mqtt.packets import Ack, Publish, Subscribe, Subscription
from firelane.sense.offer import GRANT, OFFER, RESYNC, Grant, Offer, Resync, delta_in_force, from_json, to_json
from firelane.sense.receiving import ReceivingStream
from firelane.sense.sending import SendingStream
from firelane.sense.wire import CONTENT_TYPE

TOPIC = "building/1/temperature"
AHEAD_S = 5000.0  # of the publisher's clock before ours


def an_offer(sensors=3, *, boot=7, precision=0.5, **more):
    names = tuple(f"T{number}" for number in range(sensors))
    return Offer(boot=boot, sensors=names, precision=precision, heartbeat_s=more.pop("heartbeat_s", 10.0), **more)


class Device:
    """A publisher that keeps to what it is granted."""

    def __init__(self, desk, client_id="device", *, topic=TOPIC, offer=None, **join):
        self.desk, self.topic = desk, topic
        self.line = desk.join(client_id, **join)
        self.line.subscribe(GRANT + topic, RESYNC + topic, qos=1)
        self.offer = offer or an_offer()
        self.sending = SendingStream(self.offer, model="kalman")
        self.offer_now()

    def offer_now(self, **fields):
        self.line.publish(OFFER + self.topic, to_json(self.offer), qos=1, retain=True, **fields)
        return self.line.take(Ack)

    @property
    def time_s(self):
        return self.desk.now + AHEAD_S

    def read(self, *readings):
        """Readings of all sensors, now; returns how many messages that took."""
        return self.send(self.sending.observe(self.time_s, np.array(readings, float)))

    def send(self, payloads, qos=0):
        for payload in payloads:
            self.line.publish(self.topic, payload, qos=qos, properties={"content_type": CONTENT_TYPE})
        return len(payloads)

    def tend(self):
        """What a publisher does now and then; returns what it was told meanwhile."""
        said = [one for one in self.line.take_all() if isinstance(one, Publish)]
        for one in said:
            if one.topic.startswith(GRANT) and one.payload:
                grant = from_json(Grant, one.payload)
                self.send(self.sending.set_delta(self.time_s, delta_in_force(self.offer, grant)))
            elif one.topic.startswith(RESYNC):
                wanted = self.sending.wanted(from_json(Resync, one.payload))
                self.send(self.sending.whole(self.time_s, wanted))
        self.send(self.sending.beat(self.time_s))
        return said


class Watcher:
    """A subscriber that follows one stream."""

    def __init__(self, desk, client_id="watcher", *, topic=TOPIC, topic_filter=None, **properties):
        self.desk, self.topic = desk, topic
        self.line = desk.join(client_id)
        self.stream = ReceivingStream()
        self.messages = []
        self.refusal = ""
        self.reasons = self.subscribe(topic_filter or topic, **properties)

    def subscribe(self, topic_filter, **properties):
        pairs = [(name.replace("_", "-"), str(value)) for name, value in properties.items()]
        self.line.send(
            Subscribe(packet_id=9, subscriptions=[Subscription(filter=topic_filter, qos=0)],
                      properties={"user_property": pairs} if pairs else {})
        )  # fmt: skip
        answer = next(one for one in self.line.got if hasattr(one, "reasons"))
        self.line.got.remove(answer)
        self.refusal = answer.properties.get("reason_string", "")
        return answer.reasons

    def take(self):
        """Take in what came; how many messages."""
        came = [one for one in self.line.take_all() if isinstance(one, Publish) and one.topic == self.topic]
        for one in came:
            self.stream.take(one.payload, self.desk.now)
        self.messages += came
        return len(came)

    def ask(self, *sensors):
        self.line.publish(RESYNC + self.topic, to_json(Resync(sensors=sensors or None)))

    @property
    def values(self):
        self.take()
        return self.stream.bank.predict(self.desk.now + AHEAD_S)
