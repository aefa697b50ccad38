"""What makes a topic name or a topic filter valid, and which topics a filter stands for (MQTT 5, section 4.7)."""

from __future__ import annotations

LONGEST_BYTES = 65_535
SHARED = "$share/"  # begins the filter of a shared subscription
NEED = "$need/"  # and one that names a profile


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


def matches(topic_filter: str, topic: str) -> bool:
    """Whether the filter matches the topic."""
    if topic_filter == topic:
        return True
    if "+" not in topic_filter and "#" not in topic_filter:
        return False
    return covers(topic_filter, topic)  # a topic is the filter that matches nothing else


def covers(outer: str, inner: str) -> bool:
    """Whether `outer` matches every topic that `inner` matches."""
    (wide, open_end), (narrow, inner_open) = _levels(outer), _levels(inner)
    if len(narrow) < len(wide) or (not open_end and (inner_open or len(narrow) > len(wide))):
        return False
    if wide[0] == "+" and narrow[0].startswith("$"):
        return False
    return all(here in ("+", there) for here, there in zip(wide, narrow, strict=False))


def overlaps(one: str, other: str) -> bool:
    """Whether some topic matches both filters."""
    return intersection(one, other) is not None


def intersection(one: str, other: str) -> str | None:
    """The filter that matches exactly the topics that both filters match; None if there are none."""
    (short, short_open), (long, long_open) = sorted((_levels(one), _levels(other)), key=lambda parts: len(parts[0]))
    if len(short) < len(long) and not short_open:
        return None
    if {short[0][:1], long[0][:1]} == {"+", "$"}:
        return None
    both = [there if here == "+" else here for here, there in zip(short, long, strict=False)]
    if any(there not in ("+", here) for here, there in zip(both, long, strict=False)):
        return None
    return "/".join(both + long[len(short) :] + ["#"] * (short_open and long_open))


def plain_filter(topic_filter: str) -> str:
    """The filter that decides what is matched: that of `$share/group/filter`, else the filter itself."""
    return topic_filter.split("/", 2)[-1] if topic_filter.startswith(SHARED) else topic_filter


def plain_topics(topic_filter: str) -> str:
    """The filter of what comes of one that names a group or a profile."""
    while topic_filter.startswith((SHARED, NEED)) and topic_filter.count("/") >= 2:
        topic_filter = topic_filter.split("/", 2)[2]
    return topic_filter


def _levels(topic_filter: str) -> tuple[list[str], bool]:
    """The levels before a final `#`, and whether there is one.

    `#` is read as `+/#` and `/#` as `/+/#`: no topic is empty, so they match the same.
    """
    levels = topic_filter.split("/")
    if levels[-1] != "#":
        return levels, False
    return levels[:-1] + ["+"] * (topic_filter in ("#", "/#")), True
