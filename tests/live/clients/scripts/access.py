"""Who may come in and what they may do: transports, certificates, passwords, access rules."""

from __future__ import annotations

from live.clients.client import MQTT_5, MQTT_311, Client, Message
from live.clients.guests import ALICE, BOB
from live.clients.stage import Seen, Stage, script

BIG = 50_000


def echo(publisher: Client, subscriber: Client, topic: str) -> list[Message]:
    """All three qualities of service, there and back."""
    subscriber.subscribe(topic, qos=2)
    for qos in range(3):
        publisher.publish(topic, b"%d" % qos * 2000, qos=qos)
    return sorted(subscriber.receive(3), key=lambda message: message.qos)


def echoed(topic: str) -> list[Message]:
    return [Message(topic, b"%d" % qos * 2000, qos=qos) for qos in range(3)]


@script()
def tls_and_plain_clients_share_the_topics(stage: Stage) -> Seen:
    encrypted = {"port": stage.venue.tls_port, "tls": stage.venue.trusting}
    observed, expected = {}, {}
    for number, (here, there) in enumerate([(encrypted, encrypted), (encrypted, {}), ({}, encrypted)]):
        topic = stage.topic(f"x{number}")
        publisher, subscriber = stage.client(f"pub{number}", **here), stage.client(f"sub{number}", **there)
        observed[topic] = echo(publisher, subscriber, topic)
        expected[topic] = echoed(topic)
    return observed, expected


@script()
def a_client_checks_the_broker(stage: Stage) -> Seen:
    observed = {
        "trusting": stage.attempt("a", port=stage.venue.tls_port, tls=stage.venue.trusting),
        "not trusting": stage.attempt("b", port=stage.venue.tls_port, tls=stage.venue.deceived),
    }
    return observed, {"trusting": "accepted", "not trusting": None}


@script(needs=("plain on a TLS port",))
def a_tls_port_takes_nothing_plain(stage: Stage) -> Seen:
    return {"plain": stage.attempt("a", port=stage.venue.tls_port)}, {"plain": None}


@script(venue="guarded", needs=("refused certificate",))
def a_certificate_is_asked_for(stage: Stage) -> Seen:
    """A listener with an authority for clients takes only those whose certificates are its own."""
    port = stage.venue.tls_port
    observed = {
        "without": stage.attempt("a", port=port, tls=stage.venue.trusting),
        "with a stranger's": stage.attempt("b", port=port, tls=stage.venue.stranger),
        "with a password instead": stage.attempt("c", port=port, tls=stage.venue.trusting, **ALICE),
        "with its own": stage.attempt("d", port=port, tls=stage.venue.known),
    }
    return observed, dict.fromkeys(observed) | {"with its own": "accepted"}


@script(venue="guarded")
def the_name_in_a_certificate_is_the_user(stage: Stage) -> Seen:
    """`dora` is in the certificate, has no password, and may publish where alice may not."""
    dora = stage.client("dora", port=stage.venue.tls_port, tls=stage.venue.known)
    alice, bob = stage.client("alice", **ALICE), stage.client("bob", **BOB)
    bob.subscribe(stage.topic("dora/x"), qos=1)
    alice.publish(stage.topic("dora/x"), b"of alice", qos=1)
    dora.publish(stage.topic("dora/x"), b"of dora", qos=1)
    return {"received": [message.payload for message in bob.receive(1)]}, {"received": [b"of dora"]}


@script(needs=("websocket",))
def mqtt_over_websocket(stage: Stage) -> Seen:
    web = {"port": stage.venue.websocket_port, "websocket": True}
    received = echo(stage.client("pub", **web), stage.client("sub", **web), stage.topic("x"))
    return {"received": received}, {"received": echoed(stage.topic("x"))}


@script(needs=("websocket",))
def websocket_carries_big_messages(stage: Stage) -> Seen:
    """From many small frames or one large, to one who is not on the web, and back."""
    web = stage.client("web", port=stage.venue.websocket_port, websocket=True)
    plain = stage.client("plain")
    observed, expected = {}, {}
    for name, sender, receiver in (("from the web", web, plain), ("to the web", plain, web)):
        topic = stage.topic(name)
        receiver.subscribe(topic, qos=1)
        sender.publish(topic, b"x" * BIG, qos=1)
        observed[name] = [(message.topic, len(message.payload)) for message in receiver.receive(1)]
        expected[name] = [(topic, BIG)]
    return observed, expected


@script(venue="guarded")
def passwords_are_asked_for(stage: Stage) -> Seen:
    refused = 0x86 if stage.five else 4
    observed = {
        "right": stage.attempt("a", **ALICE),
        "wrong password": stage.attempt("b", user="alice", password="wrong"),
        "other's password": stage.attempt("c", user="bob", password=ALICE["password"]),
        "unknown user": stage.attempt("d", user="mallory", password=ALICE["password"]),
    }
    return observed, dict.fromkeys(observed, refused) | {"right": "accepted"}


@script(venue="guarded")
def nobody_is_anonymous(stage: Stage) -> Seen:
    return {"no user name": stage.attempt("a")}, {"no user name": 0x87 if stage.five else 5}


@script(venue="guarded", versions=(MQTT_5,), needs=("puback reason",))
def a_forbidden_publish_is_told_and_not_delivered(stage: Stage) -> Seen:
    """The clients show PUBACK; PUBREC, which carries the refusal of QoS 2, they only answer."""
    alice, bob = stage.client("alice", **ALICE), stage.client("bob", **BOB)
    bob.subscribe(stage.topic("#"), qos=1)
    observed = {"forbidden": alice.publish(stage.topic("closed/x"), b"secret", qos=1)}
    alice.publish(stage.topic("closed/x"), b"secret", qos=0)
    observed["allowed"] = alice.publish(stage.topic("free/x"), b"public", qos=1)
    observed["received"] = [message.payload for message in bob.receive(1)]
    return observed, {"forbidden": 0x87, "allowed": 0, "received": [b"public"]}


@script(venue="guarded", versions=(MQTT_311,))
def a_forbidden_publish_of_311_is_not_delivered(stage: Stage) -> Seen:
    """3.1.1 has no word for it: the broker acknowledges as usual or closes the connection (section 3.3.5)."""
    alice, bob = stage.client("alice", **ALICE), stage.client("bob", **BOB)
    bob.subscribe(stage.topic("#"), qos=1)
    alice.publish(stage.topic("closed/x"), b"secret", qos=1)
    alice.publish(stage.topic("free/x"), b"public", qos=1)
    return {"received": [message.payload for message in bob.receive(1)]}, {"received": [b"public"]}


@script(venue="guarded", needs=("subscribe twice",))
def a_forbidden_subscription_brings_nothing(stage: Stage) -> Seen:
    """A literal filter that matches nothing the client may read."""
    alice, bob = stage.client("alice", **ALICE), stage.client("bob", **BOB)
    observed = {"free": alice.subscribe(stage.topic("free/x"), qos=1)}
    observed["closed"] = alice.subscribe(stage.topic("closed/x"), qos=1)
    bob.publish(stage.topic("closed/x"), b"secret", qos=1)
    bob.publish(stage.topic("free/x"), b"public", qos=1)
    observed["received"] = [message.payload for message in alice.receive(1)]
    return observed, {"free": [1], "closed": [0x87 if stage.five else 0x80], "received": [b"public"]}


@script(venue="guarded")
def a_wide_filter_brings_only_what_may_be_read(stage: Stage) -> Seen:
    """Bob may read everything except what is sealed; his `#` is granted and what is sealed left out."""
    alice, bob = stage.client("alice", **ALICE), stage.client("bob", **BOB)
    observed = {"granted": bob.subscribe(stage.topic("#"), qos=1)}
    alice.publish(stage.topic("sealed/x"), b"sealed", qos=1)
    alice.publish(stage.topic("free/x"), b"public", qos=1)
    observed["received"] = [message.payload for message in bob.receive(1)]
    return observed, {"granted": [1], "received": [b"public"]}


@script(venue="guarded", versions=(MQTT_5,), needs=("puback reason", "unsuback reason", "subscribe twice"))
def who_wants_no_problem_information_gets_codes_without_words(stage: Stage) -> Seen:
    """Otherwise reason strings are the broker's choice, and only for people to read (section 3.1.2.11.7)."""
    alice = stage.client("alice", **ALICE, properties={"request_problem_information": 0})
    observed = {"forbidden publish": alice.publish(stage.topic("closed/x"), b"", qos=1)}
    observed["nobody listens"] = alice.publish(stage.topic("free/x"), b"", qos=1)
    observed["unknown filter"] = alice.unsubscribe(stage.topic("free/never"))
    alice.subscribe(stage.topic("closed/x"))
    observed["words"] = alice.reason_strings
    return observed, {"forbidden publish": 0x87, "nobody listens": 0x10, "unknown filter": [0x11], "words": []}
