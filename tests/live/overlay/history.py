"""What clients at different sites saw, and whether that keeps what is promised."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise

import paho.mqtt.client as paho


class History:
    """Messages by topic: what was published, what of it was acknowledged, and what arrived where, in order."""

    def __init__(self):
        self.qos = {}  # topic -> QoS
        self.acknowledged = defaultdict(set)  # topic -> numbers
        self.arrived = defaultdict(list)  # (subscriber, topic) -> numbers in order
        self.times_s = defaultdict(list)  # the same, when

    def problems(self, subscribers):
        """What was broken, in words; nothing if all is well."""
        found = []
        for topic, acknowledged in self.acknowledged.items():
            for subscriber in subscribers:
                numbers = self.arrived[subscriber, topic]
                lost = acknowledged - set(numbers)
                if lost:
                    found.append(f"{subscriber} never got {topic} {sorted(lost)[:10]}, {len(lost)} in all")
                firsts = list(dict.fromkeys(numbers))
                if firsts != sorted(firsts):
                    at = next(n for n in range(1, len(firsts)) if firsts[n] < firsts[n - 1])
                    found.append(f"{subscriber} got {topic} {firsts[at]} after {firsts[at - 1]}")
                twice = [number for number, times in Counter(numbers).items() if times > 1]
                if twice and self.qos[topic] == 2:
                    found.append(f"{subscriber} got {topic} {twice[:10]} more than once")
        return found

    def silence_s(self, subscriber, since_s):
        """The longest time without any message for a subscriber, after a moment."""
        moments = sorted(one for (who, _), some in self.times_s.items() if who == subscriber for one in some)
        late = [since_s, *(one for one in moments if one > since_s)]
        return max((after - before for before, after in pairwise(late)), default=0.0)


class Publisher:
    """A stock client that publishes at a steady rate until it is stopped, and waits until all is acknowledged."""

    def __init__(self, history, port, topics, rate_hz=50):
        self.history, self.topics, self.rate_hz = history, topics, rate_hz  # topics -> QoS
        history.qos.update(topics)
        self._told = []  # what paho says of each message, its topic and its number
        self._stop = threading.Event()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=f"publisher-{port}", clean_session=False)
        self.client.max_inflight_messages_set(1000)
        self.client.reconnect_delay_set(0.05, 0.2)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number, broken = 0, False
        while not self._stop.wait(1 / self.rate_hz):
            broken = broken or not self.client.is_connected()
            if broken and not (self.client.is_connected() and self._all_published()):
                continue  # paho would send new messages before those that it sends again
            number, broken = number + 1, False
            for topic, qos in self.topics.items():
                told = self.client.publish(topic, str(number), qos)
                told.rc = paho.MQTT_ERR_SUCCESS  # without a connection it waits in the client, and is sent later
                self._told.append((told, topic, number))

    def _all_published(self):
        return all(told.is_published() for told, _, _ in self._told)

    def stop(self, within_s=30.0):
        self._stop.set()
        self._thread.join()
        end = time.monotonic() + within_s
        while time.monotonic() < end and not self._all_published():
            time.sleep(0.02)
        for told, topic, number in self._told:
            assert told.is_published(), f"{topic} {number} was never acknowledged"
            self.history.acknowledged[topic].add(number)
        self.client.disconnect()
        self.client.loop_stop()


class Subscriber:
    """A stock client whose session outlives it."""

    def __init__(self, history, name, port, topic_filter):
        self.history, self.name = history, name
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        self.client.reconnect_delay_set(0.05, 0.2)
        self.client.on_connect = lambda client, *_: client.subscribe(topic_filter, 2)
        self.client.on_message = self._got
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _got(self, client, data, message):
        self.history.arrived[self.name, message.topic].append(int(message.payload))
        self.history.times_s[self.name, message.topic].append(time.monotonic())

    def stop(self):
        self.client.disconnect()
        self.client.loop_stop()
