"""Access rules against brute force over topics, and passwords that are checked and remembered."""

import asyncio
import threading
from itertools import product

import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st

from firelane.exchange.clients import access as module
from firelane.exchange.clients.access import Access, Identity, Passwords, Verdict, hashed
from firelane.mqtt.topics import matches
from firelane.scenario import from_data
from firelane.scenario.settings import AccessRule, ExchangeSettings, Tls, Token, User

ANN = Identity(client_id="c1", user="ann", roles=("crew",))
NOBODY = Identity(client_id="c1")
BOTH = ("publish", "subscribe")


def allow(who, topic_filter, *actions):
    return AccessRule(who=who, filter=topic_filter, allow=actions or BOTH)


def deny(who, topic_filter, *actions):
    return AccessRule(who=who, filter=topic_filter, deny=actions or BOTH)


def access(*rules, **settings):
    return Access(ExchangeSettings(access=rules, **settings))


# ------------------------------------------------------------------------------------------------ topics


def test_without_rules_everything_is_allowed():
    free = access()
    assert free.may_publish(NOBODY, "a")
    assert free.may_receive(NOBODY, "$SYS/a")
    assert free.may_subscribe(NOBODY, "#") is Verdict.ALL


def test_where_no_rule_fits_nothing_is_allowed():
    strict = access(allow("ben", "#"))
    assert not strict.may_publish(ANN, "a")
    assert not strict.may_receive(ANN, "a")
    assert strict.may_subscribe(ANN, "a") is Verdict.NONE


def test_the_first_rule_that_fits_decides():
    rules = access(deny("*", "secret/#"), allow("*", "#"), deny("*", "#"))
    assert rules.may_publish(ANN, "open/a")
    assert not rules.may_publish(ANN, "secret/a")
    assert access(allow("*", "#"), deny("*", "secret/#")).may_publish(ANN, "secret/a")


def test_publishing_and_receiving_are_allowed_apart():
    rules = access(allow("*", "in/#", "publish"), allow("*", "out/#", "subscribe"))
    assert rules.may_publish(ANN, "in/a")
    assert not rules.may_receive(ANN, "in/a")
    assert rules.may_receive(ANN, "out/a")
    assert not rules.may_publish(ANN, "out/a")


@pytest.mark.parametrize("who", ["*", "ann", "crew", "c1"])
def test_a_rule_may_name_everybody_a_user_a_role_or_a_client_id(who):
    assert access(allow(who, "#")).may_publish(ANN, "a")


@pytest.mark.parametrize("who", ["ben", "Ann", "cre", "c", "ann*", "**"])
def test_a_rule_for_somebody_else_does_not_fit(who):
    assert not access(allow(who, "#")).may_publish(ANN, "a")


def test_rules_about_everything_do_not_reach_system_topics():
    rules = access(allow("*", "#"))
    assert not rules.may_receive(ANN, "$SYS/uptime")
    assert rules.may_subscribe(ANN, "$SYS/#") is Verdict.NONE
    assert access(allow("*", "$SYS/#")).may_receive(ANN, "$SYS/uptime")


@pytest.mark.parametrize(
    "settings",
    [
        {"users": {"ann": User()}},
        {"users": {"ben": User(roles=("ann",))}},
        {"tokens": {"ann": Token(token="x")}},
        {"tls": Tls(certificate="c", key="k", client_ca="a")},
    ],
    ids=["user", "role", "token", "certificate"],
)
def test_a_client_id_does_not_get_what_is_meant_for_a_user_or_role_of_that_name(settings):
    rules = access(allow("ann", "#"), **settings)
    assert not rules.may_publish(Identity(client_id="ann"), "a")
    assert not rules.may_publish(Identity(client_id="ann", user="ben"), "a")
    assert rules.may_publish(Identity(client_id="c1", user="ann"), "a")


def test_a_client_id_is_never_a_role_of_rest():
    assert not access(allow("admin", "#")).may_publish(Identity(client_id="admin"), "a")


def test_a_long_topic_is_judged_like_a_short_one():
    rules = access(deny("*", "a/#"), allow("*", "#"))
    for topic in ("b", "b/" + "x" * 60_000):
        assert rules.may_publish(ANN, topic)
        assert not rules.may_publish(ANN, f"a/{topic}")


def test_decisions_that_are_remembered_are_told_apart_by_client_action_and_topic():
    rules = access(allow("ann", "a", "publish"))
    for _ in range(2):
        assert rules.may_publish(ANN, "a")
        assert not rules.may_receive(ANN, "a")
        assert not rules.may_publish(NOBODY, "a")
        assert not rules.may_publish(ANN, "b")


def test_the_remembered_decisions_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_DECISIONS", 10)
    rules = access(allow("*", "#"))
    assert rules.may_publish(ANN, "x" * 10_000)
    assert rules._remembered.cache_info().currsize == 0
    assert all(rules.may_publish(ANN, f"t/{n}") for n in range(100))
    assert rules._remembered.cache_info().currsize == 10


# --------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("rules", "wanted", "verdict"),
    [
        ([allow("*", "#")], "#", Verdict.ALL),
        ([allow("*", "a/#")], "a", Verdict.ALL),
        ([allow("*", "a/#")], "a/+", Verdict.ALL),
        ([allow("*", "a/#")], "+/b", Verdict.SOME),
        ([allow("*", "a/#")], "b", Verdict.NONE),
        ([deny("*", "#")], "a", Verdict.NONE),
        ([deny("*", "secret/#"), allow("*", "#")], "#", Verdict.SOME),
        ([deny("*", "secret/#"), allow("*", "#")], "open/#", Verdict.ALL),
        ([deny("*", "secret/#"), allow("*", "#")], "secret/+", Verdict.NONE),
        ([allow("*", "secret/key"), deny("*", "secret/#"), allow("*", "#")], "secret/#", Verdict.SOME),
        # What an earlier rule has settled is settled.
        ([deny("*", "a/#"), allow("*", "a/b"), deny("*", "#")], "#", Verdict.NONE),
        ([allow("*", "a/#"), deny("*", "a/b"), allow("*", "#")], "#", Verdict.ALL),
        ([deny("*", "a/b/#"), allow("*", "+/b"), deny("*", "#")], "a/#", Verdict.NONE),
        # Only rules about receiving and about this client count.
        ([deny("*", "a", "publish"), allow("*", "#")], "#", Verdict.ALL),
        ([deny("ben", "a"), allow("*", "#")], "#", Verdict.ALL),
        # A shared subscription is judged by its filter.
        ([allow("*", "a/#")], "$share/group/a/b", Verdict.ALL),
        ([allow("*", "a/#")], "$share/group/b", Verdict.NONE),
        # Everything there is, in other words.
        ([allow("*", "+/#")], "#", Verdict.ALL),
        ([allow("*", "#")], "+/#", Verdict.ALL),
    ],
)
def test_a_subscription_is_allowed_whole_in_part_or_not_at_all(rules, wanted, verdict):
    assert access(*rules).may_subscribe(ANN, wanted) is verdict


TOPICS = ["/".join(some) for depth in (1, 2, 3) for some in product(["a", "b", "$a", "z"], repeat=depth)]
filters = st.tuples(
    st.lists(st.sampled_from(["a", "b", "+", "$a"]), min_size=1, max_size=2), st.sampled_from(["", "/#"])
).map(lambda parts: "/".join(parts[0]) + parts[1]) | st.just("#")  # fmt: skip
people = st.builds(
    Identity,
    client_id=st.sampled_from(["c1", "c2"]),
    user=st.sampled_from([None, "ann", "ben"]),
    roles=st.sampled_from([(), ("crew",)]),
)
rules_of_any_kind = st.lists(
    st.builds(
        lambda make, who, topic_filter, actions: make(who, topic_filter, *actions),
        st.sampled_from([allow, deny]),
        st.sampled_from(["*", "*", "ann", "crew", "c1"]),
        filters,
        st.sampled_from([("publish",), ("subscribe",), BOTH]),
    ),
    min_size=1,
    max_size=6,
)


def by_the_book(rules, who, action, topic):
    for rule in rules:
        named = rule.who in ("*", who.user, who.client_id) or rule.who in who.roles
        if named and action in (rule.allow or rule.deny) and matches(rule.filter, topic):
            return rule.allow is not None
    return False


@given(rules_of_any_kind, people, st.sampled_from(TOPICS))
def test_topics_are_decided_by_the_book(rules, who, topic):
    decided = access(*rules)
    assert decided.may_publish(who, topic) == by_the_book(rules, who, "publish", topic)
    assert decided.may_receive(who, topic) == by_the_book(rules, who, "subscribe", topic)


@given(rules_of_any_kind, people, filters)
def test_all_means_every_topic_and_none_means_no_topic(rules, who, wanted):
    verdict = access(*rules).may_subscribe(who, wanted)
    answers = {by_the_book(rules, who, "subscribe", topic) for topic in TOPICS if matches(wanted, topic)}
    if verdict is Verdict.ALL:
        assert answers == {True}
    if verdict is Verdict.NONE:
        assert answers == {False}


@given(rules_of_any_kind.map(lambda rules: rules[:1]), people, filters)
def test_some_means_some_when_there_is_one_rule(rules, who, wanted):
    answers = {by_the_book(rules, who, "subscribe", topic) for topic in TOPICS if matches(wanted, topic)}
    assert (access(*rules).may_subscribe(who, wanted) is Verdict.SOME) == (answers == {True, False})


# -------------------------------------------------------------------------------------------- passwords

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
USERS = {
    "ann": User(password=CHEAP.hash("ann's")),
    "ben": User(password=CHEAP.hash("ben's")),
    "pump": User(),
    "odd": User(password="$argon2id$v=19$m=8,t=1,p=1$YQ$YQ"),
}


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def counted(monkeypatch):
    """Which hashes were worked through, and in which threads."""
    work = []
    plain = PasswordHasher.verify

    def verify(self, stored, password):
        work.append((stored, threading.current_thread().name))
        return plain(self, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", verify)
    return work


def checked(*attempts, clock=None, users=USERS):
    async def run():
        passwords = Passwords(users, clock=clock or Clock())
        try:
            return [await passwords.verify(user, password) for user, password in attempts]
        finally:
            passwords.close()

    return asyncio.run(run())


def test_the_right_password_is_right_and_no_other():
    attempts = [
        ("ann", b"ann's"),
        ("ben", b"ben's"),
        ("ann", b"ben's"),
        ("ann", b"ann'"),
        ("ann", b""),
        ("ann", b"\xff"),
    ]
    assert checked(*attempts) == [True, True, False, False, False, False]


def test_nobody_gets_in_without_a_password_of_their_own():
    attempts = [("eve", b"ann's"), ("pump", b"ann's"), ("pump", b""), ("", b"ann's"), ("odd", b"a")]
    assert not any(checked(*attempts, *attempts))
    assert checked(("eve", b"x"), users={}) == [False]


def test_an_unknown_user_costs_the_same_work(counted):
    checked(("ann", b"wrong"), ("eve", b"wrong"), ("pump", b"wrong"))
    assert len(counted) == 3


def test_the_event_loop_never_does_the_work(counted):
    checked(("ann", b"ann's"), ("ann", b"wrong"), ("eve", b"wrong"))
    assert all(thread.startswith("passwords") for _, thread in counted)


def test_a_right_password_is_remembered_for_a_while_and_a_wrong_one_never(counted):
    clock = Clock()

    async def run():
        passwords = Passwords(USERS, clock=clock)
        for _ in range(3):
            assert await passwords.verify("ann", b"ann's")
        assert len(counted) == 1
        for _ in range(3):
            assert not await passwords.verify("ann", b"wrong")
            assert not await passwords.verify("eve", b"ann's")
        assert len(counted) == 7
        clock.now += module.REMEMBERED_S
        assert await passwords.verify("ann", b"ann's")
        assert len(counted) == 8
        passwords.close()

    asyncio.run(run())


def test_what_is_remembered_is_bounded_and_holds_no_secret(monkeypatch):
    monkeypatch.setattr(module, "MOST_REMEMBERED", 2)
    users = {name: User(password=CHEAP.hash(f"{name}-secret")) for name in "abcd"}

    async def run():
        passwords = Passwords(users)
        for name in "abcd":
            assert await passwords.verify(name, f"{name}-secret".encode())
        assert len(passwords._right_until) == 2
        assert "secret" not in repr(vars(passwords))
        passwords.close()

    asyncio.run(run())


def test_what_one_user_proved_counts_for_no_other():
    same = CHEAP.hash("same")
    attempts = [("a", b"same"), ("ab", b"same"), ("a", b"bsame"), ("b", b"same")]
    users = {"a": User(password=same), "b": User(password=CHEAP.hash("other"))}
    assert checked(*attempts, users=users) == [True, False, False, False]


def test_a_fleet_that_comes_back_at_once_is_checked_once_per_thread_and_not_each(monkeypatch):
    work, all_have_asked = [], threading.Event()

    def verify(_, stored, password):
        work.append(password)
        return all_have_asked.wait(10)

    monkeypatch.setattr(PasswordHasher, "verify", verify)

    async def run():
        passwords = Passwords(USERS)
        waiting = [asyncio.ensure_future(passwords.verify("ann", b"ann's")) for _ in range(200)]
        await asyncio.sleep(0)
        all_have_asked.set()
        answers = await asyncio.gather(*waiting)
        passwords.close()
        return answers

    assert all(asyncio.run(run()))
    assert len(work) <= module.THREADS


def test_whoever_waits_when_it_is_closed_still_gets_an_answer(monkeypatch):
    closed = threading.Event()
    monkeypatch.setattr(PasswordHasher, "verify", lambda *_: closed.wait(10))

    async def run():
        passwords = Passwords(USERS)
        waiting = [asyncio.ensure_future(passwords.verify("ann", str(n).encode())) for n in range(10)]
        await asyncio.sleep(0)
        passwords.close()
        closed.set()
        return await asyncio.gather(*waiting)

    assert all(asyncio.run(run()))


def test_a_password_that_is_remembered_does_not_wait_for_a_thread():
    async def run():
        passwords = Passwords(USERS)
        assert await passwords.verify("ann", b"ann's")
        passwords.close()
        assert await passwords.verify("ann", b"ann's")

    asyncio.run(run())


def test_a_hash_that_the_verb_prints_is_good_in_a_scenario():
    kept = hashed(b"p\xc3\xa4ss word")
    exchange = from_data({"name": "n", "exchange": {"users": {"ann": {"password": kept}}}}).exchange
    assert checked(("ann", "päss word".encode()), users=exchange.users) == [True]
