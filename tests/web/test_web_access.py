"""Roles: who may read, who may change, and how they prove who they are."""

import base64
import inspect
from dataclasses import replace

import pytest
from web_side import asked, bearer, guest, tokens, until, user, web_side

from firelane.scenario.model import Scenario
from firelane.web import clients, decisions, lanes, monitoring, overlay, planning, retained, streams
from firelane.web.app import make_app

OPEN = {"/healthz", "/readyz"}
READS = ["/metrics", "/api/v1/clients", "/api/v1/sessions", "/api/v1/subscriptions", "/api/v1/retained"]
CHANGES = ["/api/v1/clients?client_id=nobody", "/api/v1/sessions?client_id=nobody", "/api/v1/retained?topic=nothing"]
ROLES = tokens(viewer="read", operator="operate", chief="admin")


def basic(name, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def endpoints():
    return [
        route
        for module in (clients, decisions, lanes, monitoring, overlay, planning, retained, streams)
        for route in module.router.routes
    ]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """An exchange with a token for every role and some users."""
    users = {
        "ada": user("correct horse", "operate"),
        "bob": user("secret", "sensors"),
        "zoë": user("pässwörd", "read"),
    }
    with web_side(tmp_path_factory.mktemp("guarded"), tokens=ROLES, users=users, anonymous="never") as side:
        yield side


@pytest.fixture(scope="module")
def lenient(tmp_path_factory):
    """One where this machine may read without credentials."""
    with web_side(tmp_path_factory.mktemp("lenient"), tokens=ROLES) as side:
        yield side


def test_out_of_the_box_a_developer_on_this_machine_may_do_everything(side):
    for path in READS:
        assert side.http.get(path).status_code == 200
    for path in CHANGES:
        assert side.http.delete(path).status_code == 404  # nothing there to change


@pytest.mark.parametrize("settings", [{"tokens": ROLES}, {"users": {"ada": user("a", "operate")}}])
def test_once_there_are_tokens_or_users_this_machine_may_still_read_but_not_change(settings, tmp_path):
    with web_side(tmp_path, **settings) as side:
        for path in READS:
            assert side.http.get(path).status_code == 200
        for path in CHANGES:
            answer = side.http.delete(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == 'Bearer, Basic realm="firelane"'


def test_never_means_never_also_on_this_machine(guarded, tmp_path):
    for path in OPEN:
        assert guarded.http.get(path).status_code == 200
    for path in READS:
        assert guarded.http.get(path).status_code == 401
    with web_side(tmp_path, anonymous="never") as locked:
        assert locked.http.get("/metrics").status_code == 401
        assert locked.http.delete(CHANGES[0]).status_code == 401


@pytest.mark.parametrize(("name", "change"), [("viewer", 403), ("operator", 404), ("chief", 404)])
def test_a_token_may_do_what_its_role_and_those_below_say(guarded, name, change):
    for path in READS:
        assert guarded.http.get(path, headers=bearer(name)).status_code == 200
    for path in CHANGES:
        assert guarded.http.delete(path, headers=bearer(name)).status_code == change


def test_a_user_may_do_what_its_roles_say(guarded):
    assert guarded.http.delete(CHANGES[0], headers=basic("ada", "correct horse")).status_code == 404
    assert guarded.http.get(READS[1], headers=basic("zoë", "pässwörd")).status_code == 200
    assert guarded.http.delete(CHANGES[0], headers=basic("zoë", "pässwörd")).status_code == 403
    refused = guarded.http.get(READS[1], headers=basic("bob", "secret"))
    assert refused.status_code == 403
    assert refused.json() == {"title": "Forbidden", "status": 403, "detail": "this needs the role read"}


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer wrong",
        "Bearer viewer-secre",
        "Bearer viewer-secret2",
        "Bearer",
        "Bearer \xff\xfe",
        "",
        "Digest username=ada",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"ada").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        "Basic " + base64.b64encode(b"ada:wrong").decode(),
        "Basic " + base64.b64encode(b"nobody:correct horse").decode(),
    ],
)
def test_wrong_credentials_are_refused_even_where_none_are_needed(guarded, lenient, authorization):
    headers = {"Authorization": authorization.encode("latin-1")}
    answer = guarded.http.get("/metrics", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert lenient.http.get("/metrics", headers=headers).status_code == 401


def test_a_client_elsewhere_gets_nothing_without_credentials(tmp_path):
    with web_side(tmp_path, anonymous="always") as side:
        app = make_app(side.exchange)
        for path, methods in app.openapi()["paths"].items():
            for method in methods:
                answer = asked(app, method, path + "?client_id=x&topic=x", peer="192.0.2.7")
                assert answer.status_code == (200 if path in OPEN else 401), (method, path)


def test_a_request_that_was_passed_on_is_not_of_this_machine(side):
    for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        assert side.http.get("/metrics", headers={name: "192.0.2.7"}).status_code == 401


def test_a_reload_changes_who_may_do_what(tmp_path):
    with web_side(tmp_path, tokens=tokens(operator="operate")) as side:
        assert side.http.delete(CHANGES[0], headers=bearer("operator")).status_code == 404
        settings = replace(side.exchange.broker.settings, tokens={}, users={"ada": user("new", "read")})
        side.call(side.exchange.reload, Scenario(name="web", exchange=settings))
        assert side.http.delete(CHANGES[0], headers=bearer("operator")).status_code == 401
        assert side.http.get("/metrics", headers=basic("ada", "new")).status_code == 200


def test_no_endpoint_runs_in_a_thread_beside_the_exchange(side):
    assert {route.path for route in endpoints()} == set(make_app(side.exchange).openapi()["paths"])
    for route in endpoints():
        waiting = [route.dependant]
        while waiting:
            dependant = waiting.pop()
            waiting += dependant.dependencies
            called = dependant.call
            if not inspect.iscoroutinefunction(called):
                assert inspect.iscoroutinefunction(type(called).__call__), f"{route.path}: {called}"


def test_mqtt_clients_are_let_in_while_passwords_are_tried(guarded):
    for _ in range(3):
        assert guarded.http.get("/metrics", headers=basic("ada", "guess")).status_code == 401
    with guest(guarded, "ada-1", user="ada", password="correct horse") as ada:
        until(ada.client.is_connected)
