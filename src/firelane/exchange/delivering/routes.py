"""Who gets a message: from a topic to one copy per session, remembered until a subscription changes it.

A session with several matching filters gets one copy, at the highest QoS, with all identifiers (MQTT 5, section
3.3.4). A shared group gets one copy for the whole group.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from firelane.exchange.clients.session import Session, Subscription
from firelane.exchange.delivering.passing import Passing
from firelane.exchange.lanes.lane import Lane
from firelane.exchange.measuring.observed import SeenTopic
from firelane.exchange.measuring.traffic import Seen, Traffic
from firelane.mqtt import FilterTree, TopicTree

MOST_REMEMBERED_BYTES = 64_000_000  # about
MOST_STEPS = 2000  # to find the routes that a filter concerns
_OWN_WAY = ("$SYS", "$firelane", "$overlay", "$sense")


class Copy:
    """What one session gets of a topic; where it is not all `local`, `own` replaces it for what it published itself.

    Of several matching subscriptions the one with the best class carries it, dropped as seldom as any of them; but as
    long as a message of the topic waits in another lane, also of a former subscription, that one goes on, or messages
    would overtake each other.
    """

    __slots__ = (
        "_former",
        "_lanes",
        "_not_local",
        "_topic",
        "identifiers",
        "lane",
        "local",
        "others",
        "plain",
        "qos",
        "retain_as_published",
        "session",
        "simple",
        "threshold",
    )

    def __init__(
        self, session: Session, matching: list[Subscription], topic: bytes, former: tuple[Lane, ...] = ()
    ) -> None:
        self.session = session
        self._topic = topic  # of no meaning to a copy with a single lane, which several topics share
        self._lanes = [one.lane for one in matching]
        self._former = former
        self.lane = self._lanes[0]
        self.others: tuple[Lane, ...]
        self.qos = max(one.qos for one in matching)
        self.identifiers = tuple(one.identifier for one in matching if one.identifier)
        self.retain_as_published = any(one.retain_as_published for one in matching)
        foreign = [one for one in matching if not one.no_local]
        if len(matching) > 1 or former:
            session.overlap()
        self.local = len(foreign) == len(matching)
        self._not_local = Copy(session, foreign, topic, former) if foreign and not self.local else None
        self.choose()

    @property
    def lanes(self) -> list[Lane]:
        """Of all its subscriptions."""
        return self._lanes

    @property
    def own(self) -> Copy | None:
        """What the session gets of what it published itself."""
        return self if self.local else self._not_local

    def choose(self) -> None:
        """Look anew at how its lanes are treated."""
        if len(self._lanes) > 1 or self._former:
            self.lane = self._carrier()
            self.others = tuple(one for one in self._lanes if one is not self.lane)
            self.threshold = min(one.threshold for one in self._lanes)
        else:
            self.others, self.threshold = (), self.lane.threshold
        if self._not_local is not None:
            self._not_local.choose()
        # A copy without anything of its own may share its bytes with others, and is not to be dropped.
        self.simple = not (self.identifiers or self.others or self.threshold) and self.local
        link = self.session.link
        self.plain = self.simple and not (link is not None and link.paced)

    def _carrier(self) -> Lane:
        best = min(self._lanes, key=lambda one: (one.klass, one.threshold))
        lanes = (*self._lanes, *self._former)
        if self.session.stored and self.qos:
            stored = self.session.carrier(self._topic, lanes, self.lane)
            if stored is not None:
                return stored
        if not self.session.queued:
            return best
        return next((one for one in lanes if one.topics and self._topic in one.topics), best)


class Group:
    """The members of a shared subscription, who take turns."""

    __slots__ = ("members", "topics", "turn")

    def __init__(self, topics: str) -> None:
        self.topics = topics
        self.members: dict[Subscription, None] = {}
        self.turn = 0


class Turn:
    """A group's part in a route: those of its members who may have the topic."""

    __slots__ = ("group", "members")

    def __init__(self, group: Group, members: list[Copy]) -> None:
        self.group = group
        self.members = members

    def take(self, qos: int) -> Copy:
        """Whose turn it is: the next who is there and can take it, else one who will be back, else just the next."""
        group, members = self.group, self.members
        count = len(members)
        start = group.turn = (group.turn + 1) % count
        ordered = members[start:] + members[:start] if count > 1 else members
        for copy in ordered:
            connection = copy.session.connection
            if connection is not None and connection.writable and not copy.session.queued:
                return copy
        for copy in ordered:
            if copy.session.connection is not None or (copy.session.durable and min(copy.qos, qos)):
                return copy
        return ordered[0]


class Route:
    """Where messages of one topic go."""

    __slots__ = ("copies", "groups", "passing", "seen", "size_bytes", "text")

    def __init__(self, text: str, seen: Seen, copies: tuple[Copy, ...], groups: tuple[Turn, ...]) -> None:
        self.text = text
        self.seen = seen
        self.copies = copies
        self.groups = groups
        self.choose()
        takers = len(copies) + sum(len(turn.members) for turn in groups)
        levels = text.count("/") + 1
        self.size_bytes = 500 + 300 * levels + 3 * len(text) + 50 * takers  # near enough

    def look_anew(self) -> None:
        """Lanes are treated otherwise than before: see which of them carry what."""
        for copy in self.copies:
            copy.choose()
        for turn in self.groups:
            for copy in turn.members:
                copy.choose()
        self.choose()

    def choose(self) -> None:
        """Whether all copies are simple and share one paced link, which they may then pass together."""
        self.passing: Passing | None = None
        if self.copies and not self.groups and all(one.simple for one in self.copies):
            links = {one.session.link for one in self.copies}
            link = links.pop()
            if not links and link is not None and link.paced:
                self.passing = Passing(link, self.copies)


class Routes:
    """All subscriptions, and for each topic lately published the route they make.

    A subscription that comes or goes makes the topics that it matches be looked up anew, and no others; only where it
    would take thousands of steps to find them are all forgotten, as that takes no time.
    """

    def __init__(self, may_receive: Callable[[Session, str], bool]) -> None:
        self._may_receive = may_receive
        self._subscriptions: FilterTree[Subscription] = FilterTree()
        self._group_filters: FilterTree[Group] = FilterTree()
        self._groups: dict[tuple[str, str], Group] = {}
        self.known: OrderedDict[bytes, Route] = OrderedDict()
        self.apart: dict[bytes, Route | None] = {}  # streams of sensors, which never take the short way; None: unknown
        self._known_topics: TopicTree[bytes] = TopicTree()
        self._known_bytes = 0
        self.traffic = Traffic()
        self.count = 0
        self.shared_count = 0

    def add(self, subscription: Subscription) -> None:
        """A new subscription; one that replaces another is taken out first."""
        self.count += 1
        if subscription.group:
            self.shared_count += 1
            key = (subscription.group, subscription.topics)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = Group(subscription.topics)
                self._group_filters.add(subscription.topics, group)
            group.members[subscription] = None
        else:
            self._subscriptions.add(subscription.topics, subscription)
        self._forget(subscription.topics)

    def remove(self, subscription: Subscription) -> None:
        """A subscription that is no more."""
        self.count -= 1
        if subscription.group:
            self.shared_count -= 1
            key = (subscription.group, subscription.topics)
            group = self._groups[key]
            del group.members[subscription]
            if not group.members:
                del self._groups[key]
                self._group_filters.remove(subscription.topics, group)
        else:
            self._subscriptions.remove(subscription.topics, subscription)
        self._forget(subscription.topics)

    def find(self, topic: bytes) -> Route:
        """The route of a valid topic name."""
        route = self.known.get(topic) or self.apart.get(topic)
        if route is None:
            text = topic.decode()
            copies, turns = self._copies(topic, text), self._turns(text)
            route = Route(text, self.traffic.of(topic, text), copies, turns)
            if topic in self.apart:
                self.apart[topic] = route
                self._known_topics.add(text, topic)
            elif not text.startswith(_OWN_WAY):  # only topics that anybody may publish to take the short way
                self._remember(topic, route)
        return route

    def set_apart(self, topic: bytes) -> None:
        """Have messages of a topic always go the long way, as somebody looks at them."""
        if topic in self.known:
            self._forget_one(topic)
        self.apart.setdefault(topic, None)

    def set_back(self, topic: bytes) -> None:
        """A topic is one like others again."""
        if self.apart.get(topic) is not None:
            self._forget_one(topic)
        self.apart.pop(topic, None)

    def forget_apart(self) -> None:
        """Look up anew where streams of sensors go, as lanes are treated otherwise than before."""
        for topic, route in self.apart.items():
            if route is not None:
                self._forget_one(topic)

    def subscriptions(self, topic: str) -> list[Subscription]:
        """All that bring a topic to somebody, those of shared groups too."""
        groups = self._group_filters.matching(topic)
        found = [*self._subscriptions.matching(topic), *(one for group in groups for one in group.members)]
        return [one for one in found if not one.partly or self._may_receive(one.session, topic)]

    def forget_those_of(self, session: Session) -> None:
        """A session's lanes are treated otherwise than before, or it sits on another link."""
        for subscription in session.subscriptions.values():
            self._forget(subscription.topics)

    def seen_topics(self, now: float) -> tuple[SeenTopic, ...]:
        """Rates and sizes of what is published; the routes of topics that have fallen silent are found anew."""
        topics = self.traffic.topics(now)
        for topic in self.traffic.take_silent():
            if topic in self.known or self.apart.get(topic) is not None:
                self._forget_one(topic)
        return topics

    def forget_all(self) -> None:
        """Look everything up anew: access rules have changed."""
        self.known.clear()
        self.apart = dict.fromkeys(self.apart)
        self._known_topics = TopicTree()
        self._known_bytes = 0

    def _copies(self, topic: bytes, text: str) -> tuple[Copy, ...]:
        by_session: dict[Session, list[Subscription]] = {}
        for one in self._subscriptions.matching(text):
            if not one.partly or self._may_receive(one.session, text):
                by_session.setdefault(one.session, []).append(one)
        return tuple(_copy(session, matching, topic) for session, matching in by_session.items())

    def _turns(self, text: str) -> tuple[Turn, ...]:
        turns = []
        for group in self._group_filters.matching(text):
            members = [_alone(one) for one in group.members if not one.partly or self._may_receive(one.session, text)]
            if members:
                turns.append(Turn(group, members))
        return tuple(turns)

    def _remember(self, topic: bytes, route: Route) -> None:
        self.known[topic] = route
        self._known_topics.add(route.text, topic)
        self._known_bytes += route.size_bytes
        while self._known_bytes > MOST_REMEMBERED_BYTES:
            self._forget_one(next(iter(self.known)))

    def _forget(self, topic_filter: str) -> None:
        steps = list(islice(self._known_topics.steps(topic_filter), MOST_STEPS + 1))
        if len(steps) > MOST_STEPS:
            self.forget_all()
        else:
            for topic in steps:
                if topic is not None:
                    self._forget_one(topic)

    def _forget_one(self, topic: bytes) -> None:
        route = self.known.pop(topic, None)
        if route is not None:
            self._known_bytes -= route.size_bytes
        else:
            self.apart[topic] = None
        self._known_topics.remove(topic.decode())


def _copy(session: Session, matching: list[Subscription], topic: bytes) -> Copy:
    """What a session gets; if only one subscription matches it is the same for all topics, and kept there."""
    former = session.former() if len(session.lanes) > len(session.subscriptions) else ()
    return Copy(session, matching, topic, former) if len(matching) > 1 or former else _alone(matching[0])


def _alone(subscription: Subscription) -> Copy:
    copy = subscription.copy
    if copy is None:
        copy = subscription.copy = Copy(subscription.session, [subscription], b"")
    else:
        copy.choose()
    return copy
