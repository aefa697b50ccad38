"""The two brokers, set up alike: open to everybody, or guarded by passwords, certificates and rules."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import trustme

from live import brokers
from live.clients.client import INFLIGHT, Certificates
from live.clients.guests import firelane_settings, mosquitto_files
from live.clients.stage import Venue

KEEP_ALIVE_S = 600
ALIASES = 100  # of a client


class Papers:
    """The broker's certificate, that of a client it knows, and that of one whom somebody else has vouched for."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = trustme.CA(), trustme.CA()
        self.ca, self.certificate, self.key = (folder / f"{name}.pem" for name in ("ca", "broker", "key"))
        ours.cert_pem.write_to_path(self.ca)
        broker = ours.issue_cert(brokers.HOST)
        broker.cert_chain_pems[0].write_to_path(self.certificate)
        broker.private_key_pem.write_to_path(self.key)
        other_ca, dora, stranger = (folder / f"{name}.pem" for name in ("other", "dora", "stranger"))
        theirs.cert_pem.write_to_path(other_ca)
        for authority, path in ((ours, dora), (theirs, stranger)):
            issued = authority.issue_cert("dora@localhost", common_name="dora")
            issued.private_key_and_cert_chain_pem.write_to_path(path)
        self.held = {
            "trusting": Certificates(ca=self.ca),
            "known": Certificates(ca=self.ca, certificate=dora),
            "stranger": Certificates(ca=self.ca, certificate=stranger),
            "deceived": Certificates(ca=other_ca),
        }


@contextmanager
def mosquitto(folder: Path, papers: Papers, *, guarded: bool) -> Iterator[Venue]:
    tls_port, websocket_port = brokers.free_port(), brokers.free_port()
    encrypted = {"cafile": papers.ca, "certfile": papers.certificate, "keyfile": papers.key}
    if guarded:
        encrypted |= {"require_certificate": True, "use_identity_as_username": True}
    config: dict[str, Any] = {"max_keepalive": KEEP_ALIVE_S, "max_topic_alias": ALIASES}
    config |= {"max_inflight_messages": INFLIGHT}
    config |= {"allow_anonymous": False, **mosquitto_files(folder)} if guarded else {}
    web = f"{websocket_port} {brokers.HOST}\nprotocol websockets\nmax_topic_alias {ALIASES}"
    config |= {"listener": f"{web}\nlistener {tls_port} {brokers.HOST}", **encrypted}
    with brokers.mosquitto(folder, **config) as broker:
        _wait_for(tls_port)  # the last listener in the file
        ports = {"port": broker.port, "tls_port": tls_port, "websocket_port": websocket_port}
        yield Venue(broker="mosquitto", host=broker.host, **ports, **papers.held)


@contextmanager
def firelane(folder: Path, papers: Papers, *, guarded: bool) -> Iterator[Venue]:
    encrypted = {"port": 0, "certificate": str(papers.certificate), "key": str(papers.key)}
    if guarded:
        encrypted["client_ca"] = str(papers.ca)
    exchange = {
        "keep_alive": f"{KEEP_ALIVE_S} s",
        "system_interval": "1 s",
        "limits": {"inflight": INFLIGHT, "topic_aliases": ALIASES, "queue": 100_000},
        "websocket": {"port": 0},
        "tls": encrypted,
        **(firelane_settings() if guarded else {}),
    }
    scenario = folder / "scenario.yaml"
    scenario.write_text(json.dumps({"name": "clients", "exchange": exchange}))
    with brokers.firelane(folder, str(scenario)) as broker:
        said = broker.output.read_text()
        tls_port, websocket_port = (
            int(re.search(rf"{scheme}://{re.escape(broker.host)}:(\d+)", said)[1]) for scheme in ("mqtts", "ws")
        )
        ports = {"port": broker.port, "tls_port": tls_port, "websocket_port": websocket_port}
        yield Venue(broker="firelane", host=broker.host, **ports, **papers.held)


def _wait_for(port: int) -> None:
    for _ in range(500):
        with suppress(OSError), socket.create_connection((brokers.HOST, port)):
            return
        time.sleep(0.01)
    raise TimeoutError(f"nobody listens on port {port}")


STARTERS = {"mosquitto": mosquitto, "firelane": firelane}
