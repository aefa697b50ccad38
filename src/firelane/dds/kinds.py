"""Types of others: had from who uses them, as text that can be sent on, and as classes again.

A type is a set of XTypes objects (DDS-XTypes 1.3, section 7.3), each known by a hash of its content. The library makes
classes of them by having Python compile the names of their fields, so names are looked at first.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from hashlib import md5
from typing import Any

from cyclonedds._clayer import ddspy_get_typeobj
from cyclonedds.core import DDSException
from cyclonedds.idl import IdlUnion
from cyclonedds.idl._typesupport.DDS.XTypes._ddsi_xt_type_object import TypeIdentifier, TypeObject
from cyclonedds.idl._xt_builder import XTInterpreter, XTTypeIdScanner
from cyclonedds.util import duration

from firelane.dds.network import DdsError
from firelane.dds.participant import Participant, told

FORMAT = 1
MOST_OBJECTS = 1000
MOST_BYTES = 256_000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*")
WHOLE, TOGETHER = "f2", "b0"  # how identities of complete types begin, alone and of several that need each other
HASH_DIGITS = 28
NAMED = ("name", "type_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type by its identity, as the library's class and as what it was made of."""

    identity: str
    name: str
    objects: dict[str, bytes] = field(repr=False)
    made: Any = field(repr=False)

    @property
    def keyed(self) -> bool:
        """Whether samples are of several instances, told apart by a key."""
        return not self.made.__idl__.keyless

    def document(self) -> bytes:
        """As JSON, to be sent."""
        coded = {name: b64encode(data).decode() for name, data in self.objects.items()}
        return json.dumps({"format": FORMAT, "name": self.name, "type": self.identity, "objects": coded}).encode()


def identity_of(type_id: Any) -> str:
    """A type's identity in hexadecimal digits."""
    return _coded(type_id).hex()


def kind_of(participant: Participant, type_id: Any, name: str, *, within_s: float = 5.0) -> Kind:
    """A type that somebody in the participant's domain uses, asked of them; waits for the answers."""
    objects: dict[str, bytes] = {}
    to_ask = [type_id]
    while to_ask:
        asked = to_ask.pop()
        identity = identity_of(asked)
        if identity in objects:
            continue
        found = ddspy_get_typeobj(participant.entity._ref, _coded(asked), duration(seconds=within_s))
        if isinstance(found, int):
            with told(f'the type "{name}" cannot be had'):
                raise DDSException(found)
        objects[identity] = bytes(found)
        to_ask += XTTypeIdScanner.find_all_typeids(_parsed(objects[identity], name))
        if len(objects) > MOST_OBJECTS:
            raise DdsError(f'the type "{name}" has more than {MOST_OBJECTS} parts')
    return _kind(identity_of(type_id), name, objects)


def read_kind(document: bytes) -> Kind:
    """A type that was sent as a document; DdsError if it is none, or not the one that it says."""
    if len(document) > MOST_BYTES:
        raise DdsError(f"a type of more than {MOST_BYTES} bytes")
    try:
        read = json.loads(document)
        if read["format"] != FORMAT:
            raise DdsError("a type in a format of a later version")
        objects = {str(one): b64decode(data, validate=True) for one, data in read["objects"].items()}
        identity, name = str(read["type"]), str(read["name"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DdsError("a document that is no type") from None
    if len(objects) > MOST_OBJECTS:
        raise DdsError(f"a type of more than {MOST_OBJECTS} parts")
    return _kind(identity, name[:200], objects)


def _kind(identity: str, name: str, objects: dict[str, bytes]) -> Kind:
    if identity not in objects or any(not _is(one, data) for one, data in objects.items()):
        raise DdsError(f'the type "{name}" is not what its identity says')
    parts = {_read(TypeIdentifier, bytes.fromhex(one), name): _parsed(data, name) for one, data in objects.items()}
    try:
        made, _ = XTInterpreter.xt_to_class(_read(TypeIdentifier, bytes.fromhex(identity), name), parts)
        made.__idl__.populate()
        made.__idl__.fill_type_data()
    except Exception as problem:  # of the library, which raises what it likes
        why = str(problem).partition("\n")[0][:100] or type(problem).__name__
        raise DdsError(f'the type "{name}" cannot be used here ({why})') from None
    return Kind(identity=identity, name=name, objects=objects, made=made)


def _is(identity: str, data: bytes) -> bool:
    """Whether an object is the one of that hash; those that need each other (recursive types) have one in common."""
    if identity.startswith(WHOLE):
        return identity.removeprefix(WHOLE) == md5(data, usedforsecurity=False).hexdigest()[:HASH_DIGITS]
    return identity.startswith(TOGETHER)


def _parsed(data: bytes, name: str) -> Any:
    parsed = _read(TypeObject, data, name)
    for one in _names(parsed):
        if not NAME.fullmatch(one):
            raise DdsError(f'the type "{name}" has a name in it that is none: {one[:40]!r}')
    return parsed


def _read(kind: Any, data: bytes, name: str) -> Any:
    try:
        return kind.deserialize(data, has_header=False, use_version_2=True)
    except Exception:
        raise DdsError(f'the type "{name}" is not told in a way that can be read') from None


def _names(part: Any) -> Iterator[str]:
    """All that Python would compile, or make modules and classes of."""
    if isinstance(part, IdlUnion):
        yield from _names(part.value)
    elif isinstance(part, (list, tuple)):
        for one in part:
            yield from _names(one)
    elif is_dataclass(part):
        for one in fields(part):
            value = getattr(part, one.name)
            if one.name in NAMED and isinstance(value, str):
                yield value
            else:
                yield from _names(value)


def _coded(type_id: Any) -> bytes:
    return bytes(type_id.serialize(use_version_2=True)[4:])
