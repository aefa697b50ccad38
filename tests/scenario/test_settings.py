"""The settings of the live exchange: what they mean, what is refused, and that secrets stay where they are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.errors import ScenarioError
from firelane.predict import predict
from firelane.scenario import Scenario, from_data, from_text
from firelane.scenario.need import NeedChange
from firelane.scenario.save import to_text
from firelane.scenario.settings import (
    AccessRule,
    Cap,
    ExchangeSettings,
    Limits,
    MqttSn,
    PhaseRule,
    Profile,
    Tls,
    Token,
    Upstream,
    User,
    WebSocket,
)
from firelane.simulate import simulate
from firelane.tune import tune

HASH = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b9dWA"

FULL = f"""\
name: hall
exchange:
  keep_alive: 60 s
  anonymous: never
  access:
    - {{who: "*", filter: secret/#, deny: [publish, subscribe]}}
    - {{who: command, filter: "#", allow: [publish, subscribe]}}
  users: {{commander: {{password: "{HASH}", roles: [command]}}, pump: {{}}}}
  tokens: {{grafana: {{token: s3cret-t0ken, roles: [read, operate]}}}}
  profiles:
    urgent: {{for: [commander, command], need: {{weight: 4, max_delay: 500 ms, keep: latest}}}}
    curve: {{need: {{utility: piecewise, points: [[0, 0], [0.5, 0.75], [1, 1]], category: a b}}}}
  phases:
    size-up: []
    suppression:
      - {{for: [command], filter: water/#, need: {{weight: 8}}}}
      - {{category: bulk, need: {{min_share: 0.1}}}}
  caps: {{"*": {{weight: 2, min_share: 0.25, priority: 3}}, command: {{}}}}
  limits: {{packet: 2 MB, inflight: 10, queue: 20, queue_size: 3 MB, subscriptions: 30, publish_rate: 1 kHz,
           connect_rate: 100 Hz, connections: 40, retained: 50, log: 2 GB, session_expiry: 7 d, topic_aliases: 60}}
  durability: memory
  tls: {{port: 8884, certificate: server.pem, key: server.key, client_ca: ca.pem}}
  websocket: {{port: 0}}
  mqtt_sn: {{port: 0, predefined: {{1: door/1, 7: "a b"}}, datagram: 1 kB, clients: 5, topics: 6, retry: 500 ms,
            retries: 7, gateway_id: 8}}
  upstream: {{host: broker.example, port: 1884, in: ["#"], out: [alerts/#], user: me, password: "hunter 2",
             client_id: us, tls: true}}
  system_interval: 500 ms
"""

SETTINGS = ExchangeSettings(
    keep_alive_s=60.0,
    anonymous="never",
    access=(
        AccessRule(who="*", filter="secret/#", deny=("publish", "subscribe")),
        AccessRule(who="command", filter="#", allow=("publish", "subscribe")),
    ),
    users={"commander": User(password=HASH, roles=("command",)), "pump": User()},
    tokens={"grafana": Token(token="s3cret-t0ken", roles=("read", "operate"))},
    profiles={
        "urgent": Profile(
            clients=("commander", "command"), need=NeedChange(weight=4.0, max_delay_s=0.5, keep="latest")
        ),
        "curve": Profile(
            need=NeedChange(utility="piecewise", points=((0.0, 0.0), (0.5, 0.75), (1.0, 1.0)), category="a b")
        ),
    },
    phases={
        "size-up": (),
        "suppression": (
            PhaseRule(clients=("command",), filter="water/#", need=NeedChange(weight=8.0)),
            PhaseRule(category="bulk", need=NeedChange(min_share=0.1)),
        ),
    },
    caps={"*": Cap(weight=2.0, min_share=0.25, priority=3), "command": Cap()},
    limits=Limits(
        packet_bytes=2_000_000,
        inflight=10,
        queue=20,
        queue_bytes=3_000_000,
        subscriptions=30,
        publish_hz=1000.0,
        connect_hz=100.0,
        connections=40,
        retained=50,
        log_bytes=2_000_000_000,
        session_expiry_s=7 * 86_400.0,
        topic_aliases=60,
    ),
    durability="memory",
    tls=Tls(port=8884, certificate="server.pem", key="server.key", client_ca="ca.pem"),
    websocket=WebSocket(port=0),
    mqtt_sn=MqttSn(
        port=0,
        predefined={1: "door/1", 7: "a b"},
        datagram_bytes=1000,
        clients=5,
        topics=6,
        retry_s=0.5,
        retries=7,
        gateway_id=8,
    ),
    upstream=Upstream(
        host="broker.example",
        port=1884,
        in_filters=("#",),
        out_filters=("alerts/#",),
        user="me",
        password="hunter 2",
        client_id="us",
        tls=True,
    ),
    system_interval_s=0.5,
)


def settings(text: str) -> ExchangeSettings:
    return from_text(f"name: n\nexchange: {text}").exchange


def problem_of(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        settings(text)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 400
    return message


# ------------------------------------------------------------------------------------------ good files


def test_every_setting_means_what_it_says():
    assert from_text(FULL).exchange == SETTINGS


def test_a_name_is_enough_and_everything_else_has_its_documented_default():
    expected = ExchangeSettings()
    assert from_text("name: n").exchange == settings("{}") == expected
    assert (expected.keep_alive_s, expected.anonymous, expected.durability) == (None, "loopback", "fsync")
    assert (expected.access, expected.users, expected.tokens) == ((), {}, {})
    assert (expected.profiles, expected.caps) == ({}, {})
    assert (expected.tls, expected.websocket, expected.upstream) == (None, None, None)
    assert expected.system_interval_s == 10
    limits = expected.limits
    assert (limits.packet_bytes, limits.queue_bytes, limits.log_bytes) == (10**6, 16 * 10**6, 10**9)
    assert (limits.inflight, limits.queue, limits.subscriptions, limits.topic_aliases) == (100, 1000, 1000, 100)
    assert (limits.connections, limits.retained) == (10_000, 1_000_000)
    assert (limits.publish_hz, limits.connect_hz, limits.session_expiry_s) == (None, None, None)


def test_listeners_have_the_usual_ports():
    listening = settings("{websocket: {}, mqtt_sn: {}, tls: {certificate: c, key: k}, upstream: {host: h, in: [a]}}")
    assert listening.websocket == WebSocket(port=9001)
    assert listening.mqtt_sn == MqttSn(port=1884, datagram_bytes=1400, clients=1000, topics=256, retry_s=2.0, retries=5)
    assert listening.tls == Tls(port=8883, certificate="c", key="k")
    assert listening.upstream == Upstream(host="h", port=1883, in_filters=("a",))


@pytest.mark.parametrize("verb", [predict, simulate, tune])
def test_what_works_on_topics_refuses_a_file_that_only_serves(verb):
    with pytest.raises(ScenarioError, match="topics: there are none"):
        verb(from_text(FULL))


# ------------------------------------------------------------------------------------------- bad values


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        # Misspelt keys at every level.
        ("{keep_aliv: 5}", "keep_aliv", "did you mean keep_alive?"),
        ("{limits: {inflihgt: 5}}", "limits.inflihgt", "did you mean inflight?"),
        ("{access: [{who: a, filtre: b, allow: [publish]}]}", "access.0.filtre", "did you mean filter?"),
        ("{users: {a: {pasword: b}}}", "users.a.pasword", "did you mean password?"),
        ("{tokens: {a: {tokn: b}}}", "tokens.a.tokn", "did you mean token?"),
        ("{tls: {certificat: b}}", "tls.certificat", "did you mean certificate?"),
        ("{websocket: {prot: 5}}", "websocket.prot", "did you mean port?"),
        ("{upstream: {hots: 5}}", "upstream.hots", "did you mean host?"),
        # Missing ones.
        ("{tls: {certificate: c}}", "tls.key", "missing"),
        ("{tokens: {a: {}}}", "tokens.a.token", "missing"),
        ("{upstream: {}}", "upstream.host", "missing"),
        # Rules.
        ("{access: {who: a}}", "access", "is not a list; write e.g. [a, b]"),
        ("{access: [{who: a, filter: b}]}", "access.0", "give either allow or deny"),
        ("{access: [{who: a, filter: b, allow: [publish], deny: [publish]}]}", "access.0", "give either allow or deny"),
        ("{access: [{who: a, filter: b, allow: []}]}", "access.0.allow", "is empty; write at least one"),
        ("{access: [{who: a, filter: b, allow: [read]}]}", "access.0.allow.0", "is not one of 'publish'"),
        ("{access: [{who: a, filter: b, deny: publish}]}", "access.0.deny", "is not a list"),
        ("{access: [{who: a, filter: b#, allow: [publish]}]}", "access.0.filter", "# must be the whole last level"),
        ("{access: [{who: a, filter: $share/g/b, allow: [publish]}]}", "access.0.filter", "name the plain filter"),
        ("{access: [{who: '', filter: b, allow: [publish]}]}", "access.0.who", "is empty"),
        # Users and tokens.
        ("{users: {a: {password: '$2b$12$bcrypt'}}}", "users.a.password", "make one with `firelane password`"),
        ("{users: {a: {password: $argon2id$v=19$m=1}}}", "users.a.password", "make one with `firelane password`"),
        ("{users: {a: {roles: admin}}}", "users.a.roles", "is not a list"),
        ("{users: {'': {}}}", "users", "is empty"),
        ("{tokens: {a: {token: 'two words'}}}", "tokens.a.token", "letters, digits"),
        ("{tokens: {a: {token: é}}}", "tokens.a.token", "letters, digits"),
        ("{tokens: {a: {token: b, roles: [root]}}}", "tokens.a.roles.0", "is not one of 'read'"),
        # Profiles and caps.
        ("{profiles: {a: {fro: [b], need: {}}}}", "profiles.a.fro", "did you mean for?"),
        ("{profiles: {a: {need: {wieght: 2}}}}", "profiles.a.need.wieght", "did you mean weight?"),
        ("{profiles: {a: {for: [b]}}}", "profiles.a.need", "missing"),
        ("{profiles: {a: {for: b, need: {}}}}", "profiles.a.for", "is not a list"),
        ("{profiles: {a: {for: [''], need: {}}}}", "profiles.a.for.0", "is empty"),
        ("{phases: {a: [{need: {}, for: []}]}}", "phases.a.0.for", "is empty"),
        ("{phases: {a: [{filter: a/#/b, need: {}}]}}", "phases.a.0.filter", "#"),
        ("{phases: {a: {need: {}}}}", "phases.a", "is not a list"),
        ("{profiles: {a: {need: fast}}}", "profiles.a.need", "is not a mapping"),
        ("{profiles: {a: {need: {weight: heavy}}}}", "profiles.a.need.weight", "is not a weight"),
        ("{profiles: {a: {need: {max_delay: soon}}}}", "profiles.a.need.max_delay", "is not a duration"),
        ("{profiles: {a: {need: {min_share: 2}}}}", "profiles.a.need.min_share", "out of range for a share"),
        ("{profiles: {a: {need: {utility: cubic}}}}", "profiles.a.need.utility", "is not one of 'log'"),
        ("{profiles: {a: {need: {keep: some}}}}", "profiles.a.need.keep", "is not one of 'all' or 'latest'"),
        ("{profiles: {a: {need: {category: ''}}}}", "profiles.a.need.category", "1 to 100 printable characters"),
        ("{profiles: {a: {need: {category: 5}}}}", "profiles.a.need.category", "is not text"),
        ("{profiles: {a: {need: {points: 5}}}}", "profiles.a.need.points", "write [share, value] pairs"),
        ("{profiles: {a: {need: {knee: 0.5}}}}", "profiles.a", "knee shapes a saturating or step utility, not log"),
        ("{profiles: {a: {need: {utility: piecewise}}}}", "profiles.a", "go together; give both"),
        ("{profiles: {a/b: {need: {}}}}", "profiles.a/b", "one level of a filter; use letters and digits"),
        ("{profiles: {a+: {need: {}}}}", "profiles.a+", "one level of a filter; use letters and digits"),
        ("{profiles: {'': {need: {}}}}", "profiles", "one level of a filter; use letters and digits"),
        ("{caps: {'*': {wieght: 2}}}", "caps.*.wieght", "did you mean weight?"),
        ("{caps: {'*': {weight: heavy}}}", "caps.*.weight", "is not a weight"),
        ("{caps: {'*': {min_share: 150 %}}}", "caps.*.min_share", "out of range for a share"),
        ("{caps: {'*': {priority: -1}}}", "caps.*.priority", "greater than or equal to 0"),
        ("{caps: {'*': {priority: top}}}", "caps.*.priority", "is not a whole number"),
        ("{caps: {'*': {priority: true}}}", "caps.*.priority", "is not a whole number"),
        ("{caps: {'*': 5}}", "caps.*", "is not a mapping"),
        ("{caps: {crew: {}}}", "", 'no user has the role "crew"; name a role of users, or "*"'),
        ("{users: {ann: {}}, caps: {ann: {}}}", "", 'no user has the role "ann"'),
        # Numbers.
        ("{keep_alive: sixty}", "keep_alive", "is not a duration"),
        ("{keep_alive: 0.5 s}", "keep_alive", "whole seconds up to 65535"),
        ("{keep_alive: 65536}", "keep_alive", "whole seconds up to 65535"),
        ("{system_interval: -1}", "system_interval", "out of range for a duration"),
        ("{limits: {packet: 0}}", "limits.packet", "greater than or equal to 1"),
        ("{limits: {packet: 1 GB}}", "limits.packet", "less than or equal to 268435460"),
        ("{limits: {packet: 1.5 B}}", "limits.packet", "is not a whole number"),
        ("{limits: {packet: 1 MBps}}", "limits.packet", "is not a size"),
        ("{limits: {inflight: 0}}", "limits.inflight", "greater than or equal to 1"),
        ("{limits: {inflight: 65536}}", "limits.inflight", "less than or equal to 65535"),
        ("{limits: {inflight: true}}", "limits.inflight", "is not a whole number"),
        ("{limits: {queue: many}}", "limits.queue", "is not a whole number"),
        ("{limits: {retained: -1}}", "limits.retained", "greater than or equal to 0"),
        ("{limits: {topic_aliases: 65536}}", "limits.topic_aliases", "less than or equal to 65535"),
        ("{limits: {publish_rate: 0}}", "limits.publish_rate", "greater than 0"),
        ("{limits: {connect_rate: fast}}", "limits.connect_rate", "is not a rate"),
        ("{limits: {session_expiry: 1 fortnight}}", "limits.session_expiry", "is not a duration"),
        ("{websocket: {port: 65536}}", "websocket.port", "less than or equal to 65535"),
        ("{websocket: {port: -1}}", "websocket.port", "greater than or equal to 0"),
        ("{mqtt_sn: {datagram: 63 B}}", "mqtt_sn.datagram", "greater than or equal to 64"),
        ("{mqtt_sn: {datagram: 66 kB}}", "mqtt_sn.datagram", "less than or equal to 65507"),
        ("{mqtt_sn: {predefined: {0: a}}}", "mqtt_sn.predefined.0", "greater than or equal to 1"),
        ("{mqtt_sn: {predefined: {65535: a}}}", "mqtt_sn.predefined.65535", "less than or equal to 65534"),
        ("{mqtt_sn: {predefined: {door: a}}}", "mqtt_sn.predefined.door", "is not a whole number"),
        ("{mqtt_sn: {predefined: {1: a/#}}}", "mqtt_sn.predefined.1", "may not contain + or #"),
        ("{mqtt_sn: {retry: 0 s}}", "mqtt_sn.retry", "greater than 0"),
        ("{mqtt_sn: {clients: 0}}", "mqtt_sn.clients", "greater than or equal to 1"),
        ("{mqtt_sn: {gateway_id: 256}}", "mqtt_sn.gateway_id", "less than or equal to 255"),
        ("{upstream: {host: h, in: [a], port: 0}}", "upstream.port", "greater than or equal to 1"),
        # Words, parts that do not go together, and the wrong kind of thing.
        ("{anonymous: sometimes}", "anonymous", "is not one of 'never', 'loopback' or 'always'"),
        ("{durability: hope}", "durability", "is not one of 'fsync' or 'memory'"),
        ("{upstream: {host: h}}", "upstream", "nothing goes in or out; give filters"),
        ("{upstream: {host: h, in: [a#]}}", "upstream.in.0", "# must be the whole last level"),
        ("{upstream: {host: h, in: [a], password: b}}", "upstream", "there is a password but no user"),
        ("{websocket: 9001}", "websocket", "is not a mapping"),
        ("", "", "is not a mapping"),
    ],
)  # fmt: skip
def test_a_bad_setting_gets_one_line_naming_the_key_and_the_remedy(text, key, words):
    message = problem_of(text)
    assert message.startswith(f"exchange.{key}" if key else "exchange: ")
    assert words in message


def test_a_profile_must_have_a_name_that_can_be_written():
    with pytest.raises(ScenarioError, match=r"exchange\.profiles.*one level of a filter"):
        from_data({"name": "n", "exchange": {"profiles": {"\ud800": {"need": {}}}}})


def test_a_change_of_a_need_holds_what_fits_into_a_packet():
    line = [[n / 64, n / 64] for n in range(65)]
    change = {"utility": "piecewise", "points": line}
    assert "65 points are more than 64" in problem_of(f"{{profiles: {{a: {{need: {change}}}}}}}")
    change["points"] = line[:1] + line[2:]
    assert len(settings(f"{{profiles: {{a: {{need: {change}}}}}}}").profiles["a"].need.points) == 64


def test_a_user_must_have_a_name_that_can_be_written():
    with pytest.raises(ScenarioError, match=r"exchange\.users"):
        from_data({"name": "n", "exchange": {"users": {"\ud800": {}}}})


# ----------------------------------------------------------------------------------------------- secrets


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        "[hunter2]",
        "{users: hunter2}",
        "{users: [{bob: hunter2}]}",
        "{users: {bob: hunter2}}",
        "{users: {bob: {password: hunter2}}}",
        "{users: {bob: {password: [hunter2]}}}",
        "{users: {bob: {password: {clear: hunter2}}}}",
        "{users: {bob: {roles: hunter2}}}",
        "{users: {bob: {password: *hunter2}}}",
        "{users: {bob: {password: !hunter2 x}}}",
        "{users: {bob: {password: &hunter2 [*hunter2]}}}",
        "{tokens: hunter2}",
        "{tokens: {bob: hunter2}}",
        "{tokens: {bob: {token: hunter2 and more}}}",
        "{tokens: {bob: {token: *hunter2}}}",
        "{upstream: mqtt://bob:hunter2@broker}",
        "{upstream: [hunter2]}",
        "{upstream: {host: h, in: [a], password: [hunter2]}}",
        "{upstream: {host: h, password: hunter2}}",
        "{upstream: {host: h, in: [a], user: b, password: hunter2, tls: maybe}}",
        "{upstream: {host: h, in: [a], pasword: hunter2}}",
    ],
)
def test_a_message_never_repeats_a_secret(text):
    assert "hunter2" not in problem_of(text)


def test_no_secret_is_shown_when_settings_are_printed():
    shown = repr(from_text(FULL))
    assert "commander" in shown
    for secret in (HASH, "s3cret", "hunter"):
        assert secret not in shown


def test_a_digest_does_not_depend_on_how_the_exchange_is_run():
    bare = from_text("name: hall")
    assert from_text(FULL).digest() == bare.digest()
    assert replace(bare, exchange=ExchangeSettings(anonymous="always")).digest() == bare.digest()
    assert from_text("name: hill").digest() != bare.digest()


# ------------------------------------------------------------------------------------------- round trips


def round_trip(exchange: ExchangeSettings) -> ExchangeSettings:
    text = to_text(Scenario(name="n", exchange=exchange))
    again = from_text(text)
    assert to_text(again) == text
    return again.exchange


def test_settings_are_written_as_a_person_would_and_come_back():
    assert round_trip(SETTINGS) == SETTINGS
    assert to_text(Scenario(name="hall", exchange=SETTINGS)) == (
        "name: hall\n"
        "exchange:\n"
        "  keep_alive: 60 s\n"
        "  anonymous: never\n"
        "  access:\n"
        '    - {who: "*", filter: secret/#, deny: [publish, subscribe]}\n'
        '    - {who: command, filter: "#", allow: [publish, subscribe]}\n'
        "  users:\n"
        f'    commander: {{password: "{HASH}", roles: [command]}}\n'
        "    pump: {}\n"
        "  tokens:\n"
        "    grafana: {token: s3cret-t0ken, roles: [read, operate]}\n"
        "  profiles:\n"
        "    urgent: {for: [commander, command], need: {weight: 4, max_delay: 500 ms, keep: latest}}\n"
        "    curve: {need: {utility: piecewise, points: [[0, 0], [0.5, 0.75], [1, 1]], category: a b}}\n"
        "  phases:\n"
        "    size-up: []\n"
        "    suppression:\n"
        "      - {for: [command], filter: water/#, need: {weight: 8}}\n"
        "      - {category: bulk, need: {min_share: 0.1}}\n"
        "  caps:\n"
        '    "*": {weight: 2, min_share: 0.25, priority: 3}\n'
        "    command: {}\n"
        "  limits: {packet: 2 MB, inflight: 10, queue: 20, queue_size: 3 MB, subscriptions: 30, publish_rate: 1 kHz, "
        "connect_rate: 100 Hz, connections: 40, retained: 50, log: 2 GB, session_expiry: 7 d, topic_aliases: 60}\n"
        "  durability: memory\n"
        "  tls: {port: 8884, certificate: server.pem, key: server.key, client_ca: ca.pem}\n"
        "  websocket: {port: 0}\n"
        "  mqtt_sn: {port: 0, predefined: {1: door/1, 7: a b}, datagram: 1 kB, clients: 5, topics: 6, retry: 500 ms, "
        "retries: 7, gateway_id: 8}\n"
        "  upstream: {host: broker.example, port: 1884, in: [\"#\"], out: [alerts/#], user: me, password: hunter 2, "
        "client_id: us, tls: true}\n"
        "  system_interval: 500 ms\n"
    )  # fmt: skip


def test_default_settings_are_not_written():
    assert to_text(Scenario(name="hall")) == "name: hall\n"


def test_a_listener_with_its_usual_port_is_still_a_listener():
    assert round_trip(ExchangeSettings(websocket=WebSocket())).websocket == WebSocket()


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
counts = st.integers(1, 65_535)
sizes = st.integers(1, 268_435_460)
rates = st.none() | st.floats(1e-9, 1e15)
durations = st.just(0.0) | st.floats(1e-9, 1e15)


@given(texts, texts, st.integers(0, 65_535), counts, sizes, rates, durations)
def test_any_settings_come_back_exactly(name, secret, seconds, count, size, rate, duration):
    exchange = ExchangeSettings(
        keep_alive_s=float(seconds),
        access=(AccessRule(who=name, filter="a b/+/#", deny=("subscribe",)),),
        users={name: User(password=HASH, roles=(name,))},
        tokens={name: Token(token="t=")},
        profiles={"p": Profile(clients=(name,), need=NeedChange(max_delay_s=duration, weight=rate))},
        caps={name: Cap(weight=rate, priority=seconds)},
        limits=Limits(
            packet_bytes=size, inflight=count, queue=count, queue_bytes=size * 7, publish_hz=rate,
            connect_hz=rate, log_bytes=size * 11, session_expiry_s=duration, topic_aliases=count,
        ),
        tls=Tls(port=count, certificate=name, key=name),
        upstream=Upstream(host=name, in_filters=("+/é",), user=name, password=secret, client_id=name),
        system_interval_s=duration,
    )  # fmt: skip
    assert round_trip(exchange) == exchange
