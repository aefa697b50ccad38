"""A client of the exchange over UDP, by MQTT-SN."""

from firelane.datagrams.client import DatagramClient

__all__ = ["DatagramClient"]
