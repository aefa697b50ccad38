"""DDS endpoints: participants, typed writers and readers, discovery, and sensors' updates from peer to peer."""

from importlib.util import find_spec

from firelane.errors import FirelaneError

if find_spec("cyclonedds") is None:
    raise FirelaneError("DDS needs cyclonedds, which is not installed; run `pip install 'firelane[dds]'`")

from firelane.dds.discovery import Discovery, Endpoint
from firelane.dds.inbox import Inbox
from firelane.dds.kinds import Kind, identity_of, kind_of, read_kind
from firelane.dds.network import LOOPBACK, DdsError, Network
from firelane.dds.participant import Participant
from firelane.dds.policies import PLAIN, Policies, as_text, from_text, mismatches, unsupported
from firelane.dds.raw import ALIVE, DISPOSED, UNREGISTERED, RawReader, RawSample, RawWriter, is_version_2, key_of
from firelane.dds.reader import Gone, Reader, Received
from firelane.dds.roster import Peer, Roster
from firelane.dds.samples import SensorUpdates
from firelane.dds.transport import DdsTransport, Subscription
from firelane.dds.writer import Sent, Writer

__all__ = [
    "ALIVE",
    "DISPOSED",
    "LOOPBACK",
    "PLAIN",
    "UNREGISTERED",
    "DdsError",
    "DdsTransport",
    "Discovery",
    "Endpoint",
    "Gone",
    "Inbox",
    "Kind",
    "Network",
    "Participant",
    "Peer",
    "Policies",
    "RawReader",
    "RawSample",
    "RawWriter",
    "Reader",
    "Received",
    "Roster",
    "SensorUpdates",
    "Sent",
    "Subscription",
    "Writer",
    "as_text",
    "from_text",
    "identity_of",
    "is_version_2",
    "key_of",
    "kind_of",
    "mismatches",
    "read_kind",
    "unsupported",
]
