"""What makes a topic name or a topic filter valid (MQTT 5, section 4.7)."""

from __future__ import annotations

LONGEST_BYTES = 65_535


def topic_problem(name: str) -> str | None:
    """Why `name` cannot be published to, or None."""
    if "+" in name or "#" in name:
        return "a topic name may not contain + or #"
    return _string_problem(name, "topic name")


def filter_problem(topic_filter: str) -> str | None:
    """Why `topic_filter` cannot be subscribed to, or None."""
    levels = topic_filter.split("/")
    for position, level in enumerate(levels):
        if "#" in level and (level != "#" or position != len(levels) - 1):
            return "# must be the whole last level of a filter"
        if "+" in level and level != "+":
            return "+ must be a whole level of a filter"
    return _string_problem(topic_filter, "topic filter")


def _string_problem(text: str, what: str) -> str | None:
    if not text:
        return f"a {what} may not be empty"
    if "\0" in text:
        return f"a {what} may not contain the null character"
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return f"a {what} must be valid UTF-8"
    if len(encoded) > LONGEST_BYTES:
        return f"a {what} may have at most {LONGEST_BYTES} bytes"
    return None
