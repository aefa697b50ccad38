"""What foreign web pages, foreign host names and large bodies are answered."""

import socket
from contextlib import suppress

import pytest
from web_side import HOST, PATIENCE_S, asked, web_side

from firelane.web.app import make_app
from firelane.web.guard import MOST_BODY_BYTES


@pytest.fixture(scope="module")
def side(tmp_path_factory):
    with web_side(tmp_path_factory.mktemp("guard")) as side:
        yield side


def raw(side, request: bytes) -> bytes:
    """The answer to these bytes."""
    with socket.create_connection((HOST, side.http_port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        answer = b""
        while data := connection.recv(65_536):
            answer += data
        return answer


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080"])
def test_this_machine_may_be_called_by_its_own_names(side, host):
    assert side.http.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::"]
)
def test_a_foreign_name_that_leads_here_is_refused(side, host):
    answer = side.http.get("/healthz", headers={"Host": host})
    assert answer.status_code == 403
    assert host in answer.json()["detail"]


def test_a_request_that_names_no_host_is_refused_on_this_machine(side):
    assert raw(side, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 403")


def test_an_exchange_for_others_may_be_called_by_any_name(side):
    answer = asked(make_app(side.exchange), "GET", "/healthz", peer="192.0.2.7", host="exchange.example")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1", "http://localhost:1", "file://", "http://[", ""]
)
@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
def test_a_page_from_elsewhere_is_refused(side, origin, method):
    asks = {"Origin": origin, "Access-Control-Request-Method": "DELETE"}
    answer = side.http.request(method, "/api/v1/clients?client_id=x", headers=asks)
    assert answer.status_code == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_a_page_from_here_is_served_without_a_word_to_others(side):
    own = f"http://127.0.0.1:{side.http_port}"
    answer = side.http.get("/api/v1/clients", headers={"Origin": own})
    assert answer.status_code == 200
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_a_body_that_is_too_large_or_of_unknown_length_is_refused(side):
    large = side.http.request("DELETE", "/api/v1/clients?client_id=x", content=b"x" * (MOST_BODY_BYTES + 1))
    assert large.status_code == 413
    unknown = side.http.request("DELETE", "/api/v1/clients?client_id=x", content=iter([b"x"]))
    assert unknown.status_code == 411


def test_a_request_with_endless_headers_is_cut_off(side):
    answer = b""
    with suppress(ConnectionResetError):  # as it is cut off with something unread, which may overtake the answer
        answer = raw(side, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
    assert answer.startswith(b"HTTP/1.1 400") or not answer
    assert side.http.get("/healthz").status_code == 200
