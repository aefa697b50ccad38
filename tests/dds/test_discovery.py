"""Endpoints are found, and a topic is carried whose type the one who carries it has never seen."""

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import key
from cyclonedds.idl.types import float64, int32, sequence
from dds_rooms import QUICK, wait_until

from dds_domains import some_domain
from firelane.dds import Discovery, Participant, Reader, SensorUpdates, Writer


@dataclass
class Place(IdlStruct, typename="city.Place"):
    x: float64
    y: float64


@dataclass
class Vehicle(IdlStruct, typename="city.Vehicle"):
    number: int32
    key("number")
    name: str
    path: sequence[Place]


def test_endpoints_of_others_are_seen_while_they_are_there():
    domain = some_domain()
    with Participant(domain, QUICK) as one, Participant(domain, QUICK) as other:
        discovery = Discovery(other)
        own = Reader(other, "t")  # does not count
        writer = Writer(one, "t", reliable=True, partitions=["a", "b"])
        reader = Reader(one, "t", partitions=["a*"])
        wait_until(lambda: len(discovery.endpoints()) == 2)
        first, second = sorted(discovery.endpoints(), key=lambda endpoint: not endpoint.writes)
        assert (first.topic, first.type_name, first.reliable) == ("t", "firelane::SensorUpdates", True)
        assert (sorted(first.partitions), second.partitions) == (["a", "b"], ("a*",))
        assert (second.writes, second.reliable) == (False, False)
        assert first.participant == second.participant
        writer.close()
        wait_until(lambda: [endpoint.writes for endpoint in discovery.endpoints()] == [False])
        reader.close()
        wait_until(lambda: discovery.endpoints() == [])
        discovery.close()
        own.close()


def test_a_topic_of_an_unknown_type_is_carried_from_domain_to_domain():
    here = some_domain()
    vehicle = Vehicle(number=7, name="Lövdalen", path=[Place(x=0.1, y=-2.0), Place(x=1e300, y=0.0)])
    with Participant(here, QUICK) as source, Participant(here + 1, QUICK) as target:
        writer = Writer(source, "traffic", Vehicle, reliable=True)
        sink = Reader(target, "traffic", Vehicle, reliable=True)
        with Participant(here, QUICK) as left, Participant(here + 1, QUICK) as right:
            discovery = Discovery(left)
            wait_until(discovery.endpoints)
            kind = discovery.type_of(discovery.endpoints()[0], within_s=20)
            assert kind is not Vehicle
            assert not issubclass(kind, SensorUpdates)
            into, out = Reader(left, "traffic", kind, reliable=True), Writer(right, "traffic", kind, reliable=True)
            wait_until(lambda: writer.statistics().matched == 1 == out.statistics().matched)
            writer.send(vehicle)
            carried = []
            wait_until(lambda: carried.extend(into.take()) or carried)
            out.send(carried[0])
            got = []
            wait_until(lambda: got.extend(sink.take()) or got)
    assert (got[0].number, got[0].name, got[0].path) == (vehicle.number, vehicle.name, vehicle.path)
