"""DDS endpoints in a process of their own, driven by lines of JSON: what a site's applications are to a bridge.

    python dds_endpoint.py DOMAIN '{"topic": "traffic", "reads": true, "reliable": true}'

A reader prints what it gets; a writer takes samples on its standard input. Both say when they are there. The types are
made here, by hand, and nobody else knows them.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import appendable, key
from cyclonedds.idl.types import float64, int32, sequence
from cyclonedds.internal import InvalidSample
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration


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


@dataclass
@appendable
class Note(IdlStruct, typename="city.Note"):
    text: str
    values: sequence[int32]


KINDS = {"Vehicle": Vehicle, "Note": Note}


def quality(wanted):
    policies = [
        Policy.Reliability.Reliable(max_blocking_time=duration(seconds=5))
        if wanted.get("reliable")
        else Policy.Reliability.BestEffort,
        Policy.History.KeepAll,
        Policy.Durability.TransientLocal if wanted.get("kept") else Policy.Durability.Volatile,
    ]
    if "deadline_s" in wanted:
        policies.append(Policy.Deadline(duration(seconds=wanted["deadline_s"])))
    if "manual_s" in wanted:
        policies.append(Policy.Liveliness.ManualByTopic(duration(seconds=wanted["manual_s"])))
    return Qos(*policies)


def sample_of(kind, said):
    if kind is Vehicle:
        path = [Place(**one) for one in said.get("path", [])]
        return Vehicle(number=said["number"], name=said.get("name", ""), path=path)
    return Note(**said)


def read(participant, topic, wanted, ended):
    reader = DataReader(Subscriber(participant, _group(wanted)), topic, quality(wanted))
    print(json.dumps({"here": True}), flush=True)
    while not ended.wait(0.005):
        for one in reader.take(100):
            over = isinstance(one, InvalidSample)
            told = {"ended": asdict(one.key_sample)} if over else {"sample": asdict(one)}
            print(json.dumps(told | {"state": int(one.sample_info.instance_state)}), flush=True)


def end_with_input(ended):
    sys.stdin.read()
    ended.set()


def write(participant, topic, kind, wanted):
    writer = DataWriter(Publisher(participant, _group(wanted)), topic, quality(wanted))
    print(json.dumps({"here": True}), flush=True)
    for line in sys.stdin:
        said = json.loads(line)
        wanted_readers = said.pop("matched", 0)  # before that, nobody would hear it
        while writer.get_publication_matched_status().current_count < wanted_readers:
            time.sleep(0.005)
        act = {"write": writer.write, "dispose": writer.dispose}[said.pop("do", "write")]
        act(sample_of(kind, said))
        print(json.dumps({"did": True}), flush=True)


def _group(wanted):
    return Qos(Policy.Partition(wanted["partitions"])) if "partitions" in wanted else None


def main():
    number, wanted = int(sys.argv[1]), json.loads(sys.argv[2])
    domain = Domain(number, Path(sys.argv[3]).read_text())
    participant = DomainParticipant(number)
    kind = KINDS[wanted.get("kind", "Vehicle")]
    topic = Topic(participant, wanted["topic"], kind)
    if wanted.get("reads"):
        ended = Event()
        Thread(target=end_with_input, args=(ended,), daemon=True).start()
        read(participant, topic, wanted, ended)
    else:
        write(participant, topic, kind, wanted)
    del domain


if __name__ == "__main__":
    main()
