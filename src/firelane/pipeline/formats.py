"""Which of the formats of traces a file or folder is in, by its first bytes."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from firelane.errors import FirelaneError
from firelane.pipeline.files import files_in

TEXT = "text"
FCD = "SUMO floating-car XML"
PARQUET = "Parquet"

_LOOKED_AT = 1 << 20  # bytes: SUMO repeats its settings in a comment before it comes to the point
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A trace to read: where, in what format, and in which files."""

    place: Path
    format: str
    files: tuple[Path, ...]
    zipped: bool


def look(place: Path) -> Input:
    """What there is to read here; an error says in one line why it cannot be read."""
    files = _files(place)
    try:
        formats = {_format(file): file for file in files}
    except (OSError, EOFError, zlib.error) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise FirelaneError(f"{place}: this cannot be read: {why}; name a trace") from None
    if len(formats) > 1:
        kinds = ", ".join(f"{file.name} is {kind}" for kind, file in sorted(formats.items()))
        raise FirelaneError(f"{place}: there are files of several kinds here ({kinds}); name one of them")
    (kind,) = formats
    zipped = any(file.suffix == ".gz" for file in files)
    return Input(place=place, format=kind, files=tuple(files), zipped=zipped)


def cut_off(file: Path) -> bool:
    """Whether floating-car XML does not end as it should."""
    try:
        return b"</fcd-export" not in (_unpacked_end(file) if file.suffix == ".gz" else _end(file))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False  # Spark comes to the same place, and tells


def _end(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _LOOKED_AT))
        return opened.read()


def _unpacked_end(file: Path) -> bytes:
    end = b""
    with gzip.open(file) as unpacked:
        while part := unpacked.read(_LOOKED_AT):
            end = (end + part)[-_LOOKED_AT:]
    return end


def _files(place: Path) -> list[Path]:
    """The files of a trace that have anything in them."""
    if place.is_dir():
        inside = files_in(place)
        if not inside:
            raise FirelaneError(f"{place}: there are no files in this folder; name one with a trace in it")
    elif place.exists():
        inside = [place]
    else:
        raise FirelaneError(f"{place}: there is no such file or folder; name a trace")
    filled = [file for file in inside if file.stat().st_size > 0]
    if not filled:
        raise FirelaneError(f"{place}: there is nothing in it; name a trace with at least one row")
    return filled


def _format(file: Path) -> str:
    with file.open("rb") as opened:
        start = opened.read(4)
    if start.startswith(_GZIP):
        if file.suffix != ".gz":
            raise FirelaneError(f"{file}: this is a gzip file, which Spark knows by the name; name it {file.name}.gz")
        with gzip.open(file) as unpacked:
            head = unpacked.read(_LOOKED_AT)
    elif file.suffix == ".gz":
        raise FirelaneError(f"{file}: this is not a gzip file, though it is named so; name it otherwise")
    else:
        with file.open("rb") as opened:
            head = opened.read(_LOOKED_AT)
    return _kind(head, file)


def _kind(head: bytes, file: Path) -> str:
    if not head.strip():
        raise FirelaneError(f"{file}: there is nothing in it; name a trace with at least one row")
    if head.startswith(b"PAR1"):
        return PARQUET
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        if b'fcd-output.geo value="true"' in head:
            raise FirelaneError(f"{file}: these positions are degrees, not metres; leave --fcd-output.geo away")
        if b"<fcd-export" in head or b"<timestep" in head:
            return FCD
        raise FirelaneError(f"{file}: this XML is no floating-car data; write some with `sumo --fcd-output`")
    if b"\0" in head:
        raise FirelaneError(f"{file}: this is neither text, floating-car XML nor Parquet; name a trace")
    return TEXT
