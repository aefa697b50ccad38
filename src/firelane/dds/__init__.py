"""DDS endpoints: participants, typed writers and readers, discovery, and sensors' updates from peer to peer."""

from importlib.util import find_spec

from firelane.errors import FirelaneError

if find_spec("cyclonedds") is None:
    raise FirelaneError("DDS needs cyclonedds, which is not installed; run `pip install 'firelane[dds]'`")

from firelane.dds.discovery import Discovery, Endpoint
from firelane.dds.inbox import Inbox
from firelane.dds.network import LOOPBACK, DdsError, Network
from firelane.dds.participant import Participant
from firelane.dds.reader import Gone, Reader, Received
from firelane.dds.samples import SensorUpdates
from firelane.dds.transport import DdsTransport, Subscription
from firelane.dds.writer import Sent, Writer

__all__ = [
    "LOOPBACK",
    "DdsError",
    "DdsTransport",
    "Discovery",
    "Endpoint",
    "Gone",
    "Inbox",
    "Network",
    "Participant",
    "Reader",
    "Received",
    "Sent",
    "SensorUpdates",
    "Subscription",
    "Writer",
]
