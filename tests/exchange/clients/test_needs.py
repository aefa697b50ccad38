"""What live subscriptions are granted: who is heard before whom, how far caps let them go, what is refused."""

from dataclasses import fields, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from firelane.exchange.clients import needs as module
from firelane.exchange.clients.access import Identity
from firelane.exchange.clients.needs import NeedError, Needs, asked, stands_for
from firelane.mqtt.topics import filter_problem
from firelane.scenario import from_data
from firelane.scenario.need import Need, NeedChange, changed
from firelane.scenario.settings import Cap, ExchangeSettings, PhaseRule, Profile, Tls, User

ANN = Identity(client_id="c1", user="ann", roles=("crew",))
NOBODY = Identity(client_id="c1")
CONCAVE = ((0.0, 0.0), (0.3, 0.8), (1.0, 1.0))


def need(**change):
    return NeedChange(**change)


def profile(*clients, **change):
    return Profile(clients=clients, need=need(**change))


def needs(scenario=None, **settings):
    roles = tuple(role for role in settings.get("caps", ()) if role != "*")
    return Needs(ExchangeSettings(users={"someone": User(roles=roles)}, **settings), scenario)


def granted(rules, identity=ANN, *, subscriber=None, wanted="smoke/+", **properties):
    """What is granted for a filter as a client writes it, with properties as keywords."""
    pairs = [(name.replace("_", "-"), text) for name, text in properties.items()]
    return rules.granted(identity, subscriber, *rules.plain(wanted), asked(pairs))


def problem_of(act, *arguments, **keywords):
    with pytest.raises(NeedError) as caught:
        act(*arguments, **keywords)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 300
    return message


@pytest.fixture
def scenario():
    return from_data(
        {
            "name": "n",
            "priorities": 5,
            "topics": {"smoke/3": {"size": "1 B"}, "door/3": {"size": "1 B"}},
            "subscribers": {
                "commander": {
                    "subscribes": {
                        "smoke/+": {"weight": 4, "max_delay": "100 ms", "category": "real-time"},
                        "door/3": {"utility": "step", "knee": "50 %", "min_share": "20 %"},
                    }
                }
            },
        }
    )


# --------------------------------------------------------------------------------------- what a client asks


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("utility", "saturating", {"utility": "saturating"}),
        ("weight", "2.5", {"weight": 2.5}),
        ("knee", "30 %", {"knee": 0.3}),
        ("points", "[[0, 0], [0.3, 0.8], [1, 1]]", {"points": CONCAVE}),
        ("max-delay", "500 ms", {"max_delay_s": 0.5}),
        ("max-delay", "2", {"max_delay_s": 2.0}),
        ("max-loss", "1 %", {"max_loss": 0.01}),
        ("min-share", "0.5", {"min_share": 0.5}),
        ("category", "real-time", {"category": "real-time"}),
        ("tolerance", "0.5", {"tolerance": 0.5}),
        ("keep", "latest", {"keep": "latest"}),
        ("max-delay", "none", {"max_delay_s": None}),
        ("tolerance", "none", {"tolerance": None}),
    ],
)
def test_a_property_is_read_as_a_scenario_file_would_be(name, text, expected):
    assert asked([(name, text)]) == expected


def test_every_value_of_a_need_has_a_property():
    assert set(module.PROPERTIES) == {one.name for one in fields(Need)} == {one.name for one in fields(NeedChange)}


def test_a_name_may_have_the_underscores_of_the_scenario_file():
    assert asked([("max_delay", "1 s"), ("min_share", "1")]) == {"max_delay_s": 1.0, "min_share": 1.0}


@pytest.mark.parametrize("name", ["priority", "Weight", "max delay", "maxdelay", "max-delay-s", "", "content-type"])
def test_the_properties_of_other_applications_are_left_alone(name):
    assert asked([(name, "anything"), ("weight", "2")]) == {"weight": 2.0}


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("weight", "heavy")], 'weight: "heavy" is not a weight; write e.g. "4"'),
        ([("weight", "-1")], "weight: "),
        ([("weight", "none")], "weight: "),
        ([("weight", "")], "weight: "),
        ([("weight", "1e300")], "weight: "),
        ([("max_delay", "soon")], 'max-delay: "soon" is not a duration; write e.g. "2 ms"'),
        ([("max-delay", "")], "max-delay: "),
        ([("max-loss", "150 %")], "max-loss: "),
        ([("min-share", "2")], "min-share: "),
        ([("utility", "cubic")], "utility: \"cubic\" is not one of 'log', 'linear'"),
        ([("utility", "none")], "utility: "),
        ([("keep", "newest")], "keep: \"newest\" is not one of 'all' or 'latest'"),
        ([("category", "")], "category: a category is 1 to 100 printable characters"),
        ([("category", "a\nb")], "category: "),
        ([("category", "x" * 101)], "category: "),
        ([("points", "steep")], "points: these are not points of a utility; write"),
        ([("points", "null")], "points: "),
        ([("points", "[[0, 0], [0.5, NaN], [1, 1]]")], "points: "),
        ([("points", "[" * 4000)], "points: "),
        ([("points", str([[n / 64, n / 64] for n in range(65)]))], "points: 65 points are more than 64; leave some"),
        ([("weight", "9" * 5000)], "weight: this value has more than 4096 characters; shorten it"),
        ([("weight", "1"), ("weight", "1")], "weight: it is given twice; give it once"),
        ([("max_delay", "1"), ("max-delay", "2")], "max-delay: it is given twice; give it once"),
    ],
)  # fmt: skip
def test_a_bad_value_gets_one_line_naming_the_property_and_the_remedy(pairs, words):
    assert problem_of(asked, pairs).startswith(words)


# ------------------------------------------------------------------------------------ who goes before whom


def test_without_anything_said_a_need_is_the_default():
    nothing = granted(needs())
    assert (nothing.need, nothing.best_class, nothing.told) == (Need(), 0, ())


def test_a_subscriber_of_the_scenario_gets_what_the_scenario_says(scenario):
    rules = needs(scenario)
    expected = Need(weight=4.0, max_delay_s=0.1, category="real-time")
    assert granted(rules, subscriber="commander").need == expected
    assert granted(rules, subscriber="commander").told == ()
    assert granted(rules, subscriber="commander", wanted="$share/g/smoke/+").need == expected
    assert granted(rules, subscriber="commander", wanted="smoke/3").need == Need()
    assert granted(rules, subscriber="stranger").need == Need()
    assert granted(rules).need == Need()


def test_each_authority_changes_only_what_it_names(scenario):
    profiles = {"mine": profile("ann", weight=5.0, max_loss=0.5), "urgent": profile(weight=6.0, keep="latest")}
    rules = needs(scenario, profiles=profiles)
    by_client = Need(weight=5.0, max_loss=0.5, max_delay_s=0.1, category="real-time")
    by_filter = replace(by_client, weight=6.0, keep="latest")
    of = {"subscriber": "commander"}
    assert granted(rules, **of).need == by_client
    assert granted(rules, NOBODY, **of).need == scenario.subscribers["commander"].subscribes["smoke/+"]
    assert granted(rules, **of, wanted="$need/urgent/smoke/+").need == by_filter
    by_property = granted(rules, **of, wanted="$need/urgent/smoke/+", weight="7", max_delay="none").need
    assert by_property == replace(by_filter, weight=7.0, max_delay_s=None)


def test_a_profile_may_repeat_a_default_and_mean_it(scenario):
    rules = needs(scenario, profiles={"plain": profile("*", weight=1.0, utility="log")})
    assert granted(rules, subscriber="commander").need.weight == 1
    assert granted(rules, subscriber="commander", wanted="door/3").need == Need(min_share=0.2)


@pytest.mark.parametrize("name", ["ann", "crew", "c1", "*"])
def test_a_profile_is_for_a_user_a_role_a_client_id_or_everybody(name):
    assert granted(needs(profiles={"p": profile("other", name, weight=2.0)})).need.weight == 2
    assert granted(needs(profiles={"p": profile("other", weight=2.0)})).need.weight == 1
    assert granted(needs(profiles={"p": profile(weight=2.0)})).need.weight == 1


def test_the_first_profile_for_a_client_is_its_own_even_if_it_says_nothing():
    late = profile("ann", weight=3.0)
    rules = needs(profiles={"free": profile("ann"), "all": profile("*", weight=2.0), "late": late})
    assert granted(rules).need.weight == 1
    assert granted(rules, NOBODY).need.weight == 2


def test_a_claimed_client_id_does_not_earn_the_profile_of_a_user_or_role():
    thief = Identity(client_id="chief")
    profiles = {"p": profile("chief", weight=2.0)}
    for users in ({"chief": User()}, {"x": User(roles=("chief",))}):
        assert granted(Needs(ExchangeSettings(profiles=profiles, users=users), None), thief).need.weight == 1
    tls = Tls(certificate="c", key="k", client_ca="ca")
    assert granted(Needs(ExchangeSettings(profiles=profiles, tls=tls), None), thief).need.weight == 1
    assert granted(Needs(ExchangeSettings(profiles=profiles), None), thief).need.weight == 2


def test_another_utility_leaves_the_knee_and_points_of_the_one_before_behind(scenario):
    rules = needs(scenario, profiles={"curve": profile(utility="piecewise", points=CONCAVE)})
    of = {"subscriber": "commander", "wanted": "door/3"}
    assert granted(rules, **of).need.knee == 0.5
    assert granted(rules, **of, utility="step").need.knee == 0.5
    assert granted(rules, **of, knee="10 %").need == Need(utility="step", knee=0.1, min_share=0.2)
    assert granted(rules, **of, utility="linear").need == Need(utility="linear", min_share=0.2)
    assert granted(rules, **of, utility="saturating").need.knee is None
    curved = granted(rules, subscriber="commander", wanted="$need/curve/door/3")
    assert curved.need == Need(utility="piecewise", points=CONCAVE, min_share=0.2)
    straight = granted(rules, subscriber="commander", wanted="$need/curve/door/3", utility="linear")
    assert straight.need == Need(utility="linear", min_share=0.2)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"knee": "0.5"}, "knee shapes a saturating or step utility, not log"),
        ({"utility": "step", "knee": "0"}, "knee must be more than 0"),
        ({"utility": "piecewise"}, "utility piecewise and points go together"),
        ({"points": "[[0, 0], [1, 1]]"}, "utility piecewise and points go together"),
    ],
)
def test_values_that_do_not_go_together_are_refused(properties, words):
    assert words in problem_of(granted, needs(), **properties)


# --------------------------------------------------------------------------------------------- $need filters


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("smoke/+", ("smoke/+", None)),
        ("$need/urgent/smoke/+", ("smoke/+", "urgent")),
        ("$need/urgent/#", ("#", "urgent")),
        ("$need/urgent//a", ("/a", "urgent")),
        ("$need/urgent/$SYS/#", ("$SYS/#", "urgent")),
        ("$share/g/smoke/+", ("$share/g/smoke/+", None)),
        ("$share/g/$need/urgent/smoke/+", ("$share/g/smoke/+", "urgent")),
        ("$share/$need/urgent/a", ("$share/$need/urgent/a", None)),  # a group that is called $need
        ("a/$need/urgent/b", ("a/$need/urgent/b", None)),
        ("$needs/urgent/a", ("$needs/urgent/a", None)),
        ("$share", ("$share", None)),  # for others to refuse or not
        ("$share/g", ("$share/g", None)),
    ],
)
def test_a_filter_stands_for_the_plain_one(wanted, expected):
    assert needs(profiles={"urgent": profile()}).plain(wanted) == stands_for(wanted) == expected


@pytest.mark.parametrize(
    "wanted",
    ["$need/", "$need/urgent", "$need/urgent/", "$need//a", "$need/#", "$share/g/$need/", "$share/g/$need/urgent",
     "$need/urgent/$need/urgent/a", "$need/urgent/$share/g/a"],
)  # fmt: skip
def test_a_malformed_need_filter_is_refused(wanted):
    message = problem_of(needs(profiles={"urgent": profile()}).plain, wanted)
    assert "write $need/PROFILE/FILTER or $share/NAME/$need/PROFILE/FILTER" in message


@pytest.mark.parametrize("wanted", ["$need/urgnet/a", "$share/g/$need/urgnet/a", "$need/+/a"])
def test_an_unknown_profile_is_refused_but_its_filter_can_still_be_told(wanted):
    assert "is not a profile" in problem_of(needs(profiles={"urgent": profile()}).plain, wanted)
    assert stands_for(wanted)[0] in ("a", "$share/g/a")


def test_a_message_about_a_huge_filter_stays_short():
    for wanted in ("$need/" + "x" * 60_000 + "/a", "$need/\x07/a", "$need/" + "x" * 60_000):
        problem_of(needs().plain, wanted)


@given(st.lists(st.sampled_from(["$need", "$share", "urgent", "", "+", "a", "#"]), min_size=1, max_size=7))
def test_what_a_good_filter_stands_for_is_a_good_filter_without_a_need(levels):
    wanted = "/".join(levels)
    assume(filter_problem(wanted) is None)
    try:
        plain, name = needs(profiles={"urgent": profile()}).plain(wanted)
    except NeedError:
        return
    assert filter_problem(plain) is None
    assert name in (None, "urgent")
    assert stands_for(plain) == (plain, None)


# ---------------------------------------------------------------------------------------------------- caps


def test_a_need_above_a_cap_is_lowered_and_the_client_told():
    rules = needs(caps={"crew": Cap(weight=3.0, min_share=0.5, priority=2)})
    lowered = granted(rules, weight="10", min_share="90 %", max_delay="500 ms")
    assert lowered.need == Need(weight=3.0, min_share=0.5, max_delay_s=0.5)
    assert lowered.best_class == 2
    assert lowered.told == (("weight", "3"), ("max-delay", "500 ms"), ("min-share", "0.5"))


def test_a_need_below_its_cap_is_left_alone():
    modest = granted(needs(caps={"crew": Cap(weight=3.0, min_share=0.5)}), weight="2", max_loss="50 %")
    assert modest.need == Need(weight=2.0, max_loss=0.5)


def test_what_the_scenario_and_profiles_say_is_capped_too(scenario):
    rules = needs(scenario, profiles={"p": profile("*", min_share=1.0)}, caps={"*": Cap(weight=2.0, min_share=0.25)})
    lowered = granted(rules, subscriber="commander")
    assert (lowered.need.weight, lowered.need.min_share) == (2, 0.25)
    assert lowered.told == (("weight", "2"), ("min-share", "0.25"))


def test_high_points_cannot_stand_in_for_weight():
    """The plan orders by weight and counts weight x points: neither may pass the cap."""
    rules = needs(caps={"*": Cap(weight=10.0)})
    high = {"utility": "piecewise", "points": "[[0, 0], [1, 100]]"}
    assert granted(rules, **high).need.weight == 0.1
    assert granted(rules, **high, weight="0.05").need.weight == 0.05
    low = {"utility": "piecewise", "points": "[[0, 0], [1, 0.001]]"}
    assert granted(rules, **low, weight="1000").need.weight == 10
    tiny = needs(caps={"*": Cap(weight=1e-6)})  # a weight that nobody can write is none
    assert granted(tiny, utility="piecewise", points="[[0, 0], [1, 1e6]]").told[0:2] == (
        ("utility", "piecewise"), ("weight", "0")
    )  # fmt: skip


def test_neither_a_loss_bound_nor_a_tolerance_can_stand_in_for_a_minimum_share():
    rules = needs(caps={"*": Cap(min_share=0.9)})
    assert granted(rules, max_loss="1 %").need == Need(max_loss=0.1)
    assert granted(rules, max_loss="1 %").told == (("max-loss", "10 %"),)
    assert granted(rules, max_loss="50 %", min_share="1").need == Need(max_loss=0.5, min_share=0.9)
    assert granted(rules, tolerance="0.5").need == Need()
    assert granted(rules, tolerance="0.5").told == (("tolerance", "none"),)
    everything = needs(caps={"*": Cap(min_share=1.0)})
    assert granted(everything, max_loss="0", tolerance="0.5").need == Need(max_loss=0.0, tolerance=0.5)


def test_of_several_roles_the_most_generous_counts_value_by_value():
    caps = {"crew": Cap(weight=3.0, priority=1, min_share=0.1), "lead": Cap(weight=2.0, priority=0, min_share=0.2)}
    both = Identity(client_id="c", user="ann", roles=("crew", "lead", "uncapped"))
    most = granted(needs(caps=caps), both, weight="9", min_share="1")
    assert (most.need.weight, most.need.min_share, most.best_class) == (3, 0.2, 0)


def test_a_role_without_a_value_of_its_own_has_that_of_everybody():
    rules = needs(caps={"*": Cap(weight=2.0, priority=3), "crew": Cap(weight=5.0), "guest": Cap(weight=1.0)})
    assert granted(rules, NOBODY, weight="9").need.weight == 2
    assert granted(rules, NOBODY).best_class == 3
    assert granted(rules, weight="9").need.weight == 5
    assert granted(rules).best_class == 3
    guest = Identity(client_id="c", roles=("guest",))
    assert granted(rules, guest, weight="9").need.weight == 1  # a role may have less than everybody
    assert granted(needs(caps={"crew": Cap(weight=5.0)}), NOBODY, weight="9").need.weight == 9
    lenient = needs(caps={"*": Cap(weight=2.0, min_share=0.5), "crew": Cap(priority=0)})
    assert granted(lenient, weight="9", min_share="1").need == Need(weight=2.0, min_share=0.5)


def test_a_role_that_sets_no_limit_is_the_most_generous():
    caps = {"crew": Cap(weight=3.0), "lead": Cap(min_share=0.1)}
    both = Identity(client_id="c", roles=("crew", "lead"))
    assert granted(needs(caps=caps), both, weight="9", min_share="1").need == Need(weight=9.0, min_share=1.0)


def test_a_client_id_or_user_is_no_role():
    imposter = Identity(client_id="lead", user="lead", roles=("crew",))
    rules = needs(caps={"crew": Cap(weight=1.0), "lead": Cap(weight=100.0)})
    assert granted(rules, imposter, weight="9").need.weight == 1


def test_the_best_class_is_one_that_there_is(scenario):
    caps = {"*": Cap(priority=12)}
    assert granted(needs(scenario, caps=caps)).best_class == 4  # of five
    assert granted(needs(caps=caps)).best_class == 8  # of the usual nine


# ------------------------------------------------------------------------------------------------ what is told


def test_a_client_is_told_what_it_asked_for_and_nothing_else(scenario):
    rules = needs(scenario, profiles={"mine": profile("ann", weight=5.0), "urgent": profile(max_loss=0.01)})
    of = {"subscriber": "commander"}
    assert granted(rules, **of).told == ()
    assert granted(rules, **of, wanted="$need/urgent/smoke/+").told == (("max-loss", "1 %"),)
    told = granted(rules, **of, utility="saturating", knee="0.25", category="a b", keep="latest", weight="1e-3").told
    assert told == (
        ("utility", "saturating"), ("weight", "0.001"), ("knee", "0.25"), ("category", "a b"), ("keep", "latest")
    )  # fmt: skip
    curve = granted(rules, **of, utility="piecewise", points="[[0,0],[0.3,0.8],[1,1]]").told
    assert curve == (("utility", "piecewise"), ("points", "[[0, 0], [0.3, 0.8], [1, 1]]"))


# ---------------------------------------------------------------------------------------------------- overrides


def test_an_override_stands_above_everything_until_it_is_taken_back(scenario):
    rules = needs(scenario, caps={"*": Cap(weight=1.0, priority=3)})
    rules.override("commander", "smoke/+", Need(weight=50.0))
    raised = granted(rules, subscriber="commander", weight="2", max_delay="1 s")
    assert (raised.need, raised.best_class) == (Need(weight=50.0), 0)
    assert raised.told == (("weight", "50"), ("max-delay", "none"))
    assert granted(rules, subscriber="commander", wanted="door/3").need.weight == 1
    assert granted(rules, subscriber="other").need.weight == 1
    rules.override("commander", "smoke/+", None)
    assert granted(rules, subscriber="commander").need.weight == 1
    rules.override("commander", "smoke/+", None)  # once more is no matter


def test_an_override_finds_a_client_that_is_no_subscriber_of_the_scenario_by_its_id(scenario):
    rules = needs(scenario)
    rules.override("c1", "a", Need(weight=2.0))
    assert granted(rules, wanted="a").need.weight == 2
    assert granted(rules, wanted="$share/g/a").need.weight == 1
    rules.override("commander", "a", Need(weight=3.0))
    assert granted(rules, Identity(client_id="commander"), wanted="a").need.weight == 1  # only claims to be


def test_the_number_of_overrides_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_OVERRIDES", 2)
    rules = needs()
    rules.override("a", "x", Need())
    rules.override("b", "x", Need())
    assert "take one back" in problem_of(rules.override, "c", "x", Need())
    rules.override("b", "x", Need(weight=2.0))
    rules.override("a", "x", None)
    rules.override("c", "x", Need())


def test_what_no_property_can_hold_is_not_told():
    rules = needs()
    rules.override("c1", "smoke/+", Need(category="a\0b", weight=2.0))
    assert granted(rules, category="c", weight="1").told == (("weight", "2"),)
    rules.override("c1", "smoke/+", Need(category="a" * 70_000))
    assert granted(rules, category="c").told == ()


def test_a_bad_value_is_refused_even_under_an_override():
    rules = needs()
    rules.override("c1", "smoke/+", Need())
    assert "knee" in problem_of(granted, rules, knee="0.5")


# ------------------------------------------------------------------------------------------------------- laws

amounts = st.just(0.0) | st.floats(1e-9, 1e15)
shares = st.just(0.0) | st.floats(1e-9, 1)
words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=9).filter(
    lambda word: word != "none"
)
rising = st.floats(1e-6, 1e6).map(lambda top: ((0.0, 0.0), (0.25, top * 0.75), (1.0, top)))
shapes = st.one_of(
    st.fixed_dictionaries({"utility": st.sampled_from(["log", "linear", "saturating", "step"])}),
    st.fixed_dictionaries({"utility": st.sampled_from(["saturating", "step"]), "knee": shares.filter(bool)}),
    st.fixed_dictionaries({"utility": st.just("piecewise"), "points": rising}),
    st.just({}),
)
rest = st.fixed_dictionaries(
    {},
    optional={
        "weight": amounts, "max_delay_s": amounts, "max_loss": shares, "min_share": shares,
        "category": words, "tolerance": amounts, "keep": st.sampled_from(["all", "latest"]),
    },
)  # fmt: skip
changes = st.builds(lambda shape, others: {**shape, **others}, shapes, rest)
some_needs = changes.map(lambda change: Need(**change))
caps = st.builds(Cap, weight=st.none() | amounts, min_share=st.none() | shares, priority=st.none() | st.integers(0, 20))
rules_with = st.builds(
    lambda own, chosen, everybody, crew: needs(
        profiles={"own": profile("ann", **own), "chosen": profile(**chosen)}, caps={"*": everybody, "crew": crew}
    ),
    changes, changes, caps, caps,
)  # fmt: skip
wanted_filters = st.sampled_from(["a", "$need/chosen/a", "$share/g/$need/own/a"])


@given(some_needs, changes)
def test_changing_a_need_twice_in_the_same_way_is_changing_it_once(before, change):
    once = changed(before, change)
    assert changed(once, change) == once
    assert all(getattr(once, name) == value for name, value in change.items())
    kept = {one.name for one in fields(Need)} - set(change) - {"knee", "points"}
    assert all(getattr(once, name) == getattr(before, name) for name in kept)


@given(changes, changes, caps, caps, changes)
def test_caps_only_lower(own, chosen, everybody, crew, change):
    profiles = {"own": profile("ann", **own), "chosen": profile(**chosen)}
    free = needs(profiles=profiles).granted(ANN, None, "a", "chosen", change)
    capped = needs(profiles=profiles, caps={"*": everybody, "crew": crew}).granted(ANN, None, "a", "chosen", change)
    assert capped.need.weight <= free.need.weight
    assert capped.need.min_share <= free.need.min_share
    assert capped.need.least_share <= free.need.least_share
    untouched = {"weight": 0.0, "min_share": 0.0, "max_loss": None, "tolerance": None}
    assert replace(capped.need, **untouched) == replace(free.need, **untouched)


@given(changes, caps)
def test_nobody_gets_above_its_cap(change, cap):
    result = needs(caps={"*": cap}).granted(ANN, None, "a", None, change)
    if cap.weight is not None:
        top = result.need.points[-1][1] if result.need.points else 1.0
        assert result.need.weight <= cap.weight
        assert result.need.weight * top <= cap.weight * (1 + 1e-12)
    if cap.min_share is not None:
        assert result.need.min_share <= cap.min_share
        assert result.need.least_share <= cap.min_share + 1e-9
    assert result.best_class == min(cap.priority or 0, 8)


@given(rules_with, wanted_filters, changes)
def test_asking_for_what_one_was_told_grants_the_same_again(rules, wanted, change):
    plain, name = rules.plain(wanted)
    first = rules.granted(ANN, None, plain, name, change)
    assert rules.granted(ANN, None, plain, name, asked(first.told)) == first


@given(rules_with, wanted_filters)
def test_asking_for_nothing_leaves_it_to_the_next_authority(rules, wanted):
    plain, name = rules.plain(wanted)
    foreign = asked([("content", "x"), ("priority", "0")])
    assert rules.granted(ANN, None, plain, name, foreign) == rules.granted(ANN, None, plain, name, {})


@given(st.lists(st.tuples(st.sampled_from(sorted(module.PROPERTIES.values())) | st.text(), st.text()), max_size=5))
def test_whatever_a_client_sends_is_granted_or_refused_in_one_line(pairs):
    line, weight = "", 0.0
    try:
        weight = needs(caps={"*": Cap(weight=1.0)}).granted(ANN, None, "a", None, asked(pairs)).need.weight
    except NeedError as refusal:
        line = str(refusal)
    assert weight <= 1
    assert line.isprintable()
    assert len(line) < 300


# --------------------------------------------------------------------------------------- phases


def phase(**rule):
    return PhaseRule(**rule)


SUPPRESSION = (
    phase(clients=("crew",), filter="smoke/#", need=need(weight=8.0)),
    phase(category="bulk", need=need(weight=0.5, min_share=0.1)),
    phase(filter="smoke/+", need=need(max_delay_s=0.1)),
)


def test_a_phase_changes_what_its_rules_fit_and_leaving_it_gives_back_what_was():
    rules = needs(phases={"size-up": (), "suppression": SUPPRESSION})
    assert (rules.phase, rules.phases) == (None, ["size-up", "suppression"])
    assert granted(rules).need == Need()
    rules.enter("suppression")
    assert granted(rules).need == Need(weight=8.0, max_delay_s=0.1)
    assert granted(rules, NOBODY).need == Need(max_delay_s=0.1)
    assert granted(rules, wanted="door/3").need == Need()
    assert granted(rules, wanted="#").need == Need()  # a part of it is not all of it
    assert granted(rules, wanted="door/3", category="bulk").need == Need(weight=0.5, min_share=0.1, category="bulk")
    rules.enter("size-up")
    assert granted(rules).need == Need()
    rules.enter("suppression")
    rules.enter(None)
    assert granted(rules).need == Need()


def test_a_phase_stands_above_what_a_client_asks_and_below_caps_and_overrides():
    rules = needs(phases={"suppression": SUPPRESSION}, caps={"*": Cap(weight=4.0)})
    rules.enter("suppression")
    found = granted(rules, weight="2")
    assert found.need.weight == 4.0
    assert dict(found.told) == {"weight": "4", "max-delay": "100 ms"}
    rules.override("c1", "smoke/+", Need(weight=9.0))
    assert granted(rules).need == Need(weight=9.0)


def test_a_phase_that_there_is_none_of_is_refused_and_one_that_was_removed_is_over():
    rules = needs(phases={"suppression": SUPPRESSION})
    assert '"party" is not a phase; name one of exchange.phases: suppression' in problem_of(rules.enter, "party")
    rules.enter("suppression")
    settings = ExchangeSettings(phases={"suppression": SUPPRESSION})
    assert Needs(settings, None, rules).phase == "suppression"
    assert Needs(ExchangeSettings(), None, rules).phase is None
