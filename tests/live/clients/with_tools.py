"""mosquitto_pub and mosquitto_sub: a process per subscriber and one per call to publish."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

from live.clients.client import MQTT_5, PATIENCE_S, QUIET_S, Connack, Inbox, Message, Properties, RefusalError, Setup

IDLE = "idle"  # mosquitto_sub must subscribe to something; nobody publishes here
FIELDS = {
    "C": ("content_type", str),
    "D": ("correlation_data", str.encode),
    "E": ("message_expiry_interval", int),
    "F": ("payload_format_indicator", int),
    "P": ("user_property", lambda text: [tuple(pair.split(":", 1)) for pair in text.split(" ")]),
    "R": ("response_topic", str),
}
FORMAT = r"MSG\t%t\t%q\t%r\t%x\t" + r"\t".join(f"%{letter}" for letter in FIELDS)


class ToolsClient:
    CANNOT: ClassVar[dict[str, str]] = {
        "connack": "the tools do not show the session present flag and the properties of CONNACK",
        "unsuback reason": "mosquitto_sub unsubscribes only when it connects and does not show the answer",
        "unsubscribe": "mosquitto_sub unsubscribes only when it connects",
        "subscribe twice": "mosquitto_sub sends one SUBSCRIBE, with one QoS for all filters",
        "subscribe options": "mosquitto_sub 2.0 has no options for no local, retain handling or retain as published",
        "identifiers": "mosquitto_sub takes and shows no more than one subscription identifier",
        "publish and subscribe": "each tool does only one of the two",
        "disconnect properties": "mosquitto_sub takes the properties of DISCONNECT when it starts",
        "goodbye with a will": "mosquitto_sub, when interrupted, asks for its will to be published (0x04)",
        "plain on a TLS port": "mosquitto_sub tries again for ever",
        "manual ack": "mosquitto_sub always acknowledges by itself",
        "short keep alive": "libmosquitto takes no keep alive below five seconds",
        "lost": "mosquitto_sub connects again by itself",
        "qos 2 in bulk": "mosquitto 2.0.11 exceeds the receive maximum, and mosquitto_sub then closes the connection",
        "aliases from the broker": "libmosquitto leaves topic aliases of the broker to the program",
        "websocket": "libmosquitto 2.0 speaks no WebSocket",
    }

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.reason_strings: list[str] = []
        self._five = setup.version == MQTT_5
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """The tools connect when they subscribe or publish; only a will needs a connection before."""
        if self._setup.will is not None:
            self._start([IDLE], 0)
        self.connack = Connack(reason=0)

    def subscribe(self, *filters: str, qos: int = 0, **options: Any) -> list[int]:
        if any(options.values()):
            raise NotImplementedError(self.CANNOT["subscribe options"])
        return self._start(filters, qos)

    def unsubscribe(self, *filters: str) -> list[int]:
        raise NotImplementedError(self.CANNOT["unsubscribe"])

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, **properties: Any) -> int:
        how = ["-r"] * retain + (["-s"] if payload else ["-n"])
        log = self._pub(topic, payload, qos, [*how, *self._properties("publish", properties)])
        acknowledged = re.findall(r"PUB(?:ACK|COMP) \(Mid: 1, RC:(\d+)\)", log)
        return int(acknowledged[0]) if acknowledged else 0

    def publish_all(self, topic: str, payloads: Sequence[bytes], *, qos: int, **properties: Any) -> None:
        """With a topic alias, mosquitto_pub says the topic only once."""
        window = ["-M", str(self._setup.inflight)]
        self._pub(topic, b"\n".join(payloads), qos, ["-l", *window, *self._properties("publish", properties)])

    def receive(self, count: int, *, quiet_s: float = QUIET_S) -> list[Message]:
        if self._process is None:
            self._start([IDLE], 0)
        return self._inbox.take(count, quiet_s)

    def acknowledge(self, count: int) -> None:
        raise NotImplementedError(self.CANNOT["manual ack"])

    def lost(self) -> int | None:
        raise NotImplementedError(self.CANNOT["lost"])

    def disconnect(self, *, reason: int = 0, **properties: Any) -> None:
        """Interrupted, mosquitto_sub sends DISCONNECT; in MQTT 5 with 0x04, which matters if there is a will."""
        if properties:
            raise NotImplementedError(self.CANNOT["disconnect properties"])
        self._end(signal.SIGINT)

    def drop(self) -> None:
        self._end(signal.SIGKILL)

    def _start(self, filters: Sequence[str], qos: int) -> list[int]:
        s = self._setup
        command = ["stdbuf", "-oL", "mosquitto_sub", *self._common(s.client_id), "-F", FORMAT, "-q", str(qos)]
        command += [part for one in filters for part in ("-t", one)]
        expiry = s.properties.get("session_expiry_interval")
        command += ["-c"] * (not s.clean) + (["-x", str(expiry)] if expiry is not None else [])
        command += self._properties(
            "connect", {k: v for k, v in s.properties.items() if k != "session_expiry_interval"}
        )
        self._process = subprocess.Popen(self._with_will(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._inbox, self._codes, self._refusal = Inbox(), None, None
        self._decided = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(self._process,))
        self._thread.start()
        self._decided.wait(PATIENCE_S)
        if self._codes is None:
            self._end(signal.SIGKILL)
            raise RefusalError(self._refusal)
        return self._codes

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout:
            text = line.decode().rstrip("\n")
            if text.startswith("MSG\t"):
                self._inbox.put(_message(text))
            elif found := re.search(r"^Subscribed \(mid: \d+\): (.*)", text):
                self._codes = [int(code) for code in found[1].split(", ")]
                self._decided.set()
            elif found := re.search(r"received CONNACK \(([1-9]\d*)\)", text):
                self._refusal = int(found[1])
        self._decided.set()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._thread.join(PATIENCE_S)
            self._process.stdout.close()
            self._process = None

    def _pub(self, topic: str, payload: bytes, qos: int, how: list[str]) -> str:
        command = ["mosquitto_pub", *self._common(f"{self._setup.client_id}-pub"), "-t", topic, "-q", str(qos), *how]
        done = subprocess.run(
            command,
            input=payload,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S * 2,
            check=False,
        )
        log = done.stdout.decode()
        if done.returncode:
            refused = re.findall(r"received CONNACK \((\d+)\)", log)
            raise RefusalError(int(refused[0]) if refused else None)
        return log

    def _common(self, client_id: str) -> list[str]:
        s = self._setup
        words = ["-d", "-h", s.host, "-p", str(s.port), "-i", client_id, "-k", str(s.keep_alive_s)]
        words += ["-V", "mqttv5" if self._five else "mqttv311"]
        words += ["-u", s.user] if s.user is not None else []
        words += ["-P", s.password] if s.password is not None else []
        if s.tls is not None:
            words += ["--cafile", str(s.tls.ca)]
            if s.tls.certificate is not None:
                words += ["--cert", str(s.tls.certificate), "--key", str(s.tls.certificate)]
        return words

    def _with_will(self, command: list[str]) -> list[str]:
        will = self._setup.will
        if will is None:
            return command
        words = ["--will-topic", will.topic, "--will-payload", will.payload.decode(), "--will-qos", str(will.qos)]
        return [*command, *words, *["--will-retain"] * will.retain, *self._properties("will", will.properties)]

    def _properties(self, packet: str, properties: Properties) -> list[str]:
        words = []
        for name, value in properties.items() if self._five else ():
            for one in value if isinstance(value, list) else [value]:
                parts = one if isinstance(one, tuple) else (one.decode() if isinstance(one, bytes) else str(one),)
                words += ["-D", packet, name.replace("_", "-"), *parts]
        return words


def _message(line: str) -> Message:
    _, topic, qos, retain, payload, *texts = line.split("\t")
    named = zip(FIELDS.values(), texts, strict=True)
    properties = {name: parse(text) for (name, parse), text in named if text}
    return Message(topic, bytes.fromhex(payload), int(qos), retain == "1", properties)
