"""What clients at different sites saw, and edges accepted, and whether that keeps what is promised."""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from itertools import pairwise
from typing import NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.client import mqtt_ms_resend_pubrel, mqtt_ms_wait_for_pubcomp

from live.wan import HOME

OUTDATED_SHOWN = 5


class Silence(NamedTuple):
    """How long, from when on, and who got nothing of which topic."""

    length_s: float
    after_s: float
    subscriber: str
    topic: str

    def __str__(self):
        return f"{self.length_s:.2f} s ({self.subscriber} of {self.topic} after {self.after_s:.2f} s)"


class History:
    """Messages by topic: what was published, what of it was acknowledged, and what arrived where, in order."""

    def __init__(self):
        self.qos = {}  # topic -> QoS
        self.wants = {}  # subscriber -> filter
        self.sites = {}  # topic or subscriber -> where it is published, or who it is
        self.acknowledged = defaultdict(set)  # topic -> numbers
        self.arrived = defaultdict(list)  # (subscriber, topic) -> numbers in order
        self.times_s = defaultdict(list)  # the same, when

    def chains(self):
        """Every subscriber with every topic that it wants."""
        pairs = [(who, topic) for who in self.wants for topic in self.qos]
        return [(who, topic) for who, topic in pairs if paho.topic_matches_sub(self.wants[who], topic)]

    def problems(self):
        """What was broken, in words; nothing if all is well."""
        return [line for chain in self.chains() for line in self._problems(*chain)]

    def _problems(self, subscriber, topic):
        numbers = list(self.arrived[subscriber, topic])
        lost = self.acknowledged[topic] - set(numbers)
        if lost:
            yield f"{subscriber} never got {topic} {sorted(lost)[:10]}, {len(lost)} in all"
        firsts = list(dict.fromkeys(numbers))
        if firsts != sorted(firsts):
            at = next(n for n in range(1, len(firsts)) if firsts[n] < firsts[n - 1])
            yield f"{subscriber} got {topic} {firsts[at]} after {firsts[at - 1]}"
        twice = [number for number, times in Counter(numbers).items() if times > 1]
        if twice and self.qos[topic] != 1:
            yield f"{subscriber} got {topic} {twice[:10]} more than once"

    def again(self):
        """How many messages of QoS 1 came more than once, which is allowed."""
        plain = [chain for chain in self.chains() if self.qos[chain[1]] == 1]
        return sum(len(self.arrived[chain]) - len(set(self.arrived[chain])) for chain in plain)

    def silence(self, since_s, until_s, *, site=None, without=None):
        """The longest time between two messages of a topic for a subscriber, after a moment and before another; only of
        what goes to a site or comes from it, or of all the rest."""
        found = [Silence(0.0, 0.0, "", "")]
        for who, topic in self.chains():
            ends = self.sites[who], self.sites[topic]
            if (site is None or site in ends) and (without is None or without not in ends):
                times_s = self.times_s[who, topic]
                inside = times_s[bisect_right(times_s, since_s) : bisect_right(times_s, until_s)]
                moments = [since_s, *inside, until_s]
                found += [Silence(after - one, one - since_s, who, topic) for one, after in pairwise(moments)]
        return max(found)

    def caught_up(self):
        """A question that is answered with yes once everything has arrived that is acknowledged now."""
        now = {topic: max(numbers, default=0) for topic, numbers in list(self.acknowledged.items())}

        def answer():
            return all(
                (self.arrived[who, topic] or [0])[-1] >= now.get(topic, 0)
                for who, topic in self.chains()
                if self.qos[topic]
            )

        return answer


class Epochs:
    """What an edge was told and accepted, in order: lines of topic, epoch and `told`, `accepted` or `refused`."""

    def __init__(self, edge, lines):
        self.edge, self.lines = edge, lines

    @classmethod
    def read(cls, edge, file):
        return cls(edge, [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else [])

    def problems(self):
        """What it accepted under an epoch although it knew of a newer one."""
        newest, found = {}, []
        for topic, epoch, what in self.lines:
            if what == "accepted" and epoch < newest.get(topic, 0):
                found.append(f"{self.edge} took {topic} under epoch {epoch} after {newest[topic]}")
            if what != "refused":
                newest[topic] = max(epoch, newest.get(topic, 0))
        return found[:OUTDATED_SHOWN]

    def changes(self):
        """How often a topic got a newer epoch than it had."""
        seen = defaultdict(set)
        for topic, epoch, what in self.lines:
            if what != "refused":
                seen[topic].add(epoch)
        return sum(len(epochs) - 1 for epochs in seen.values())


class _Paho(paho.Client):
    """paho without a mistake of its 2.2: a message of QoS 2 whose PUBREL was sent is published again if the second
    attempt to connect fails, which is for the broker a new one."""

    def _messages_reconnect_reset_out(self):
        with self._out_message_mutex:
            over = (mqtt_ms_wait_for_pubcomp, mqtt_ms_resend_pubrel)
            released = [one for one in self._out_messages.values() if one.state in over]
        super()._messages_reconnect_reset_out()
        for one in released:
            one.state = mqtt_ms_resend_pubrel


class Stock:
    """A stock client at a site, whose session outlives its connections."""

    def __init__(self, history, name, edge):
        self.history, self.name = history, name
        self.place = getattr(edge, "place", HOME)
        self.client = _Paho(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        self.client.max_inflight_messages_set(1000)
        self.client.reconnect_delay_set(0.05, 0.2)
        self.client.connect_async("127.0.0.1", edge.port)
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def _loop(self):
        with self.place.inside():
            self.client.loop_forever(retry_first_connection=True)

    def leave(self):
        self.client.disconnect()
        self._thread.join()


class Publisher(Stock):
    """Publishes at a steady rate until it is stopped, and waits until all is acknowledged."""

    def __init__(self, history, edge, topics, rate_hz=50):
        super().__init__(history, f"publisher-{edge.name}", edge)
        self.topics, self.rate_hz = topics, rate_hz  # topics -> QoS
        history.qos.update(topics)
        history.sites.update(dict.fromkeys(topics, edge.name))
        self._told = deque()  # what paho says of each message that is not acknowledged, its topic and its number
        self._stop = threading.Event()
        self._thread.start()
        self._publishing = threading.Thread(target=self._run, daemon=True)
        self._publishing.start()

    def _run(self):
        number, broken = 0, False
        while not self._stop.wait(1 / self.rate_hz):
            settled = self._settle()
            broken = broken or not self.client.is_connected()
            if broken and not (self.client.is_connected() and settled):
                continue  # paho would send new messages before those that it sends again
            number, broken = number + 1, False
            for topic, qos in self.topics.items():
                told = self.client.publish(topic, str(number), qos)
                told.rc = paho.MQTT_ERR_SUCCESS  # without a connection it waits in the client, and is sent later
                if qos:
                    self._told.append((told, topic, number))

    def _settle(self):
        """Note what was acknowledged; whether that is all."""
        while self._told and self._told[0][0].is_published():
            _, topic, number = self._told.popleft()
            self.history.acknowledged[topic].add(number)
        return not self._told

    def stop(self, within_s=30.0):
        self._stop.set()
        self._publishing.join()
        end = time.monotonic() + within_s
        while not self._settle():
            _, topic, number = self._told[0]
            assert time.monotonic() < end, f"{topic} {number} was never acknowledged"
            time.sleep(0.02)
        self.leave()


class Subscriber(Stock):
    """Writes down what it gets."""

    def __init__(self, history, name, edge, topic_filter):
        super().__init__(history, name, edge)
        history.wants[name] = topic_filter
        history.sites[name] = edge.name
        self.client.on_connect = lambda client, *_: client.subscribe(topic_filter, 2)
        self.client.on_message = self._got
        self._thread.start()

    def _got(self, client, data, message):
        self.history.arrived[self.name, message.topic].append(int(message.payload))
        self.history.times_s[self.name, message.topic].append(time.monotonic())
