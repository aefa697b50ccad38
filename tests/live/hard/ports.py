"""An exchange that also listens for TLS and WebSocket, and where."""

from __future__ import annotations

import re
from pathlib import Path

import trustme

from live.brokers import Broker


def tls_and_websocket(folder: Path) -> list[str]:
    """Arguments of `serve` for further listeners on free ports, with a certificate that nobody knows."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    tls = f"{{port: 0, certificate: {folder}/certificate.pem, key: {folder}/key.pem}}"
    return ["--set", f"exchange.tls={tls}", "--set", "exchange.websocket={port: 0}"]


def port_of(broker: Broker, scheme: str) -> int:
    """The port that the exchange said it listens on."""
    return int(re.search(rf"\b{scheme}://127\.0\.0\.1:(\d+)", broker.output.read_text())[1])
