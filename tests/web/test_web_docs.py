"""docs/reference/rest.md knows every endpoint, parameter and metric."""

import re
from pathlib import Path

from web_side import bearer, tokens, web_side

from firelane.control import Control
from firelane.web.app import make_app
from firelane.web.metrics import PREFIX, families

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "rest.md").read_text()


def section(heading):
    """What stands under a heading, up to the next of its rank."""
    (_, after) = PAGE.split(f"### `{heading}`\n")
    return after.split("\n#")[0]


def test_every_endpoint_is_documented_with_its_parameters_its_role_and_an_example(side):
    described = make_app(side.exchange).openapi()["paths"]
    assert len(described) >= 7
    for path, methods in described.items():
        for method, operation in methods.items():
            text = section(f"{method.upper()} {path}")
            assert re.search(r"^Role: `(none|read|operate|admin)`", text, flags=re.MULTILINE), path
            assert re.search(rf"^curl .*{path}", text, flags=re.MULTILINE), f"{method} {path} has no example"
            for parameter in operation.get("parameters", ()):
                assert f"`{parameter['name']}`" in text, f"{method} {path} {parameter['name']}"


def test_every_field_of_an_answer_is_documented(side):
    schemas = make_app(side.exchange).openapi()["components"]["schemas"]
    for name, schema in schemas.items():
        for key in schema.get("properties", ()):
            assert f"`{key}`" in PAGE, f"{name}.{key} is not in rest.md"


def test_the_documented_roles_are_those_that_are_needed(tmp_path):
    with web_side(tmp_path, anonymous="never", tokens=tokens(read="read", operate="operate")) as side:
        for heading in re.findall(r"^### `(\w+ \S+)`$", PAGE, flags=re.MULTILINE):
            method, path = heading.split()
            (role,) = re.findall(r"^Role: `(\w+)`", section(heading), flags=re.MULTILINE)
            address = f"{path}?client_id=x&topic=x&name=x" if method == "DELETE" else path
            people = ({}, bearer("read"), bearer("operate"))
            statuses = [side.http.request(method, address, headers=one).status_code for one in people]
            refused = {"none": [], "read": [401], "operate": [401, 403]}[role]
            assert statuses[: len(refused)] == refused, heading
            # What changes something has nothing to change here, or lacks a body.
            idle = method == "GET" and path != "/api/v1/overlay/plan"  # of which only a router has one
            granted = {200} if idle else {200, 404, 409, 422}
            assert set(statuses[len(refused) :]) <= granted, heading


def test_every_metric_is_documented_and_no_other(side):
    documented = set(re.findall(rf"^\| `({PREFIX}\w+)", PAGE, flags=re.MULTILINE))
    assert documented == {PREFIX + family.name for family in families(side.exchange, Control(side.exchange))}


def test_every_label_is_documented(side):
    rows = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith(f"| `{PREFIX}")}
    for family in families(side.exchange, Control(side.exchange)):
        row = rows[PREFIX + family.name + (f"{{{family.label}}}" if family.label else "")]
        for value in family.values if family.label not in ("", "version", "link", "priority") else ():
            assert f"`{value}`" in row
