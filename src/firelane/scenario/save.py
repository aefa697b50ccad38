"""A scenario as the YAML file a person would have written: units, one line per topic and need, no defaults."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firelane.errors import ScenarioError
from firelane.scenario.model import Scenario, plain_data
from firelane.units import BANDWIDTH, DURATION, RATE, SHARE, SIZE, Quantity

LINE_WIDTH = 110
LONGEST_SIMPLE_KEY = 1000  # YAML stops at 1024 characters; a longer key needs a question mark

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.+#$-]*(?: [A-Za-z0-9_/.+$-][A-Za-z0-9_/.+#$-]*)*\Z")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def save(scenario: Scenario, path: str | Path, *, comment: str = "") -> None:
    """Write the scenario file, complete or not at all; `comment` becomes its first lines."""
    text = to_text(scenario, comment=comment)
    try:
        write_whole(path, text)
    except OSError as problem:
        raise ScenarioError(f"the scenario cannot be written here: {problem.strerror}", source=str(path)) from None


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file, complete or not at all: into a draft beside it, which then takes its place.

    A link is followed and the file's mode kept; what is no file (a device, a pipe) is written to as it is.
    """
    raw = content.encode() if isinstance(content, str) else content
    given = Path(path)
    if str(path).startswith("/dev/") or (given.exists() and not given.is_file()):
        given.write_bytes(raw)
        return
    target = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as draft:
            draft.write(raw)
        mode = target.stat().st_mode if target.exists() else 0o666 & ~_umask()
        os.chmod(name, stat.S_IMODE(mode))
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def to_text(scenario: Scenario, *, comment: str = "") -> str:
    """The scenario as YAML text that reads back as exactly the same scenario."""
    data = plain_data(scenario)
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [
        f"{key}: {value_text(key, data[key])}" for key in ("name", "priorities", "headroom", "flows") if key in data
    ]
    for section, entry in _SECTIONS.items():
        if data.get(section):
            lines.append(f"{section}:")
            for name, value in data[section].items():
                lines += entry(name, value)
    if data.get("exchange"):
        lines += ["exchange:", *_exchange(data["exchange"])]
    return "\n".join(lines) + "\n"


def _one_line(name: str, value: dict[str, Any]) -> list[str]:
    return [f"{_key(name, 2)} {_mapping(value)}"]


def _publisher(name: str, publisher: dict[str, Any]) -> list[str]:
    rates = [f"{_flow_key(topic)} {_quantity(rate, *_RATE)}" for topic, rate in publisher["publishes"].items()]
    link = [f"link: {_text(publisher['link'])}"] if "link" in publisher else []
    inside = ", ".join([*link, "publishes: {" + ", ".join(rates) + "}"])
    line = f"{_key(name, 2)} {{{inside}}}"
    if len(line) <= LINE_WIDTH:
        return [line]
    return [_key(name, 2), *(f"    {one}" for one in link), "    publishes:", *_wrapped(rates)]


def _wrapped(entries: list[str]) -> list[str]:
    """A flow mapping over as many lines as it needs."""
    lines = ["      {"]
    for entry in entries:
        if len(lines[-1]) + len(entry) > LINE_WIDTH:
            lines.append("       ")
        lines[-1] += f"{entry}, "
    return [line.rstrip() for line in lines[:-1]] + [lines[-1].removesuffix(", ") + "}"]


def _subscriber(name: str, subscriber: dict[str, Any]) -> list[str]:
    lines = [_key(name, 2)]
    if "link" in subscriber:
        lines.append(f"    link: {_text(subscriber['link'])}")
    if subscriber.get("match") is not None:
        lines.append(f"    match: {_mapping(subscriber['match'])}")
    if not subscriber.get("subscribes", {}):
        return [*lines, "    subscribes: {}"]
    needs = (f"{_key(wanted, 6)} {_mapping(need)}" for wanted, need in subscriber.get("subscribes", {}).items())
    return [*lines, "    subscribes:", *needs]


def _exchange(settings: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, value in settings.items():
        if key == "access":
            lines += ["  access:", *(f"    - {_mapping(rule)}" for rule in value)]
        elif key == "phases":
            lines.append("  phases:")
            for name, rules in value.items():
                listed = [f"      - {_mapping(rule)}" for rule in rules]
                lines += [_key(name, 4) + ("" if listed else " []"), *listed]
        elif key in ("users", "tokens", "profiles", "caps"):
            lines += [f"  {key}:", *(f"{_key(name, 4)} {_mapping(one)}" for name, one in value.items())]
        else:
            lines.append(f"  {key}: {value_text(key, value)}")
    return lines


_SECTIONS: dict[str, Callable[[str, dict[str, Any]], list[str]]] = {
    "links": _one_line,
    "topics": _one_line,
    "publishers": _publisher,
    "subscribers": _subscriber,
    "brokers": _one_line,
    "categories": _one_line,
}


def _mapping(values: dict[str, Any]) -> str:
    return "{" + ", ".join([f"{key}: {value_text(key, value)}" for key, value in values.items()]) + "}"


def value_text(key: str, value: Any) -> str:
    """A value as it is written under this key: with a unit, and exactly."""
    if key in _QUANTITIES and isinstance(value, (int, float)):
        return _quantity(value, *_QUANTITIES[key])
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, dict):
        return _mapping(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join([value_text(key, one) for one in value]) + "]"
    return _number(value)


# ---------------------------------------------------------------------------------------- quantities


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _quantity(value: float, quantity: Quantity, units: tuple[str, ...], base: str) -> str:
    """The number in the largest of `units` that suits it, or in the base unit where that is not exact."""
    for unit in units:
        scale = quantity.units[unit]
        if value >= scale:
            text = f"{value / scale:.12g}"
            if float(text) * scale == value:
                return f"{text} {unit}"
            break
    return f"{_number(value)} {base}".rstrip()


_RATE = (RATE, ("MHz", "kHz", "Hz"), "Hz")
_SIZE = (SIZE, ("GB", "MB", "kB", "B"), "B")
_DELAY = (DURATION, ("s", "ms", "us"), "s")
_PERIOD = (DURATION, ("d", "h", "min", "s", "ms", "us"), "s")
_PERCENT = (SHARE, ("%",), "")
_QUANTITIES: dict[str, tuple[Quantity, tuple[str, ...], str]] = {
    "bandwidth": (BANDWIDTH, ("Gbps", "Mbps", "kbps", "bps"), "bps"),
    "propagation": _DELAY,
    "max_delay": _DELAY,
    "max_delay_p95": _DELAY,
    "loss": _PERCENT,
    "max_loss": _PERCENT,
    "overhead": _SIZE,
    "size": _SIZE,
    "sizes": _SIZE,
    "switch_rate": _RATE,
    "input_rate": _RATE,
    "output_rate": _RATE,
    "keep_alive": _DELAY,
    "system_interval": _DELAY,
    "session_expiry": _PERIOD,
    "publish_rate": _RATE,
    "connect_rate": _RATE,
    "packet": _SIZE,
    "datagram": _SIZE,
    "retry": _DELAY,
    "queue_size": _SIZE,
    "log": _SIZE,
    "sampling": _PERCENT,
    "keep": _SIZE,
    "roll": _PERIOD,
}


# ---------------------------------------------------------------------------------------------- text


def _text(text: str) -> str:
    """A string as YAML reads it back: plain where that is safe, else in double quotes."""
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    if _SURROGATE.search(text):
        raise ScenarioError("this name is not valid Unicode and cannot be written; rename it", key=ascii(text))
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _key(name: str, indent: int) -> str:
    """A key of a block mapping, with its colon."""
    text, margin = _text(name), " " * indent
    return f"{margin}{text}:" if len(text) <= LONGEST_SIMPLE_KEY else f"{margin}? {text}\n{margin}:"


def _flow_key(name: str) -> str:
    text = _text(name)
    return f"{text}:" if len(text) <= LONGEST_SIMPLE_KEY else f"? {text} :"
