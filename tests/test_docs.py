"""The documentation says what the code does: commands run, nothing is undocumented, tables are made from the source."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path

import click
import pytest

from firelane.cli import main
from firelane.metrics import SCHEMA
from firelane.overlay.owner import hashed_owner
from firelane.scenario import from_text
from firelane.scenario.control_settings import ControlSettings
from firelane.scenario.model import Broker, Category, Link, Need, Publisher, Scenario, Subscriber, Topic, scenario_type
from firelane.scenario.overlay_settings import DirectSettings, OverlaySettings
from firelane.scenario.sense_settings import SenseSettings
from firelane.scenario.settings import (
    AccessRule,
    Cap,
    ExchangeSettings,
    Limits,
    MqttSn,
    Profile,
    Tls,
    Token,
    Upstream,
    User,
    WebSocket,
)
from firelane.scenario.telemetry_settings import TelemetrySettings

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "firelane").rglob("*.py"))
PAPER_LINES = ("Implements", "Differs", "Symbols", "Checked by")


def code_blocks(path: Path, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(path: Path) -> list[list[str]]:
    lines = [line for block in code_blocks(path) for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("firelane ")]


def run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firelane.cli", *command[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path):
    found = commands(ROOT / "README.md")
    assert len(found) >= 7
    for command in found:
        if command[1] not in ("reproduce", "serve"):  # have tests of their own
            run(command, tmp_path)


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path):
    (block,) = code_blocks(ROOT / "README.md", "python")
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=True)
    predicted, simulated = map(float, done.stdout.split())
    assert predicted == pytest.approx(simulated, abs=0.02)


def test_the_python_of_the_registry_runs(tmp_path):
    (block,) = code_blocks(ROOT / "docs" / "reference" / "overlay-registry.md", "python")
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "alarm/#" in done.stdout


def test_the_hashes_on_the_page_about_owners_are_those_of_the_code():
    text = (ROOT / "docs" / "overlay-assignment.md").read_text()
    weights = re.findall(r"^([0-9a-f]{16})  -$", text, flags=re.MULTILINE)
    routers = ["router-1", "router-2"]
    assert weights == [blake2b(f"{one}\0a/b".encode(), digest_size=8).hexdigest() for one in routers]
    assert hashed_owner("a/b", routers) == routers[weights.index(max(weights))]
    assert f"`a/b` belongs to `{hashed_owner('a/b', routers)}`" in text


@pytest.mark.slow
def test_the_tutorial_works_as_written(tmp_path):
    (scenario,) = code_blocks(ROOT / "docs" / "tutorial.md", "yaml")
    (tmp_path / "post.yaml").write_text(scenario)
    for command in commands(ROOT / "docs" / "tutorial.md"):
        run(command, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    sorted(set((ROOT / "examples").glob("*.py")) - {ROOT / "examples" / "follow_stream.py"}),  # which needs a broker
    ids=lambda path: path.name,
)
def test_examples_run(example, tmp_path):
    subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=True)


def verbs(group: click.Group, prefix: str = ""):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from verbs(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_every_verb_and_option_is_documented():
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    for name, command in verbs(main):
        row = next((line for verb, line in rows.items() if verb == name or verb.startswith(f"{name} ")), None)
        assert row is not None, f"{name} is not in command-line.md"
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in row, f"{name} {option} is not in command-line.md"


def test_every_scenario_key_is_documented():
    text = (ROOT / "docs" / "reference" / "scenario.md").read_text()
    for kind in (Scenario, Link, Topic, Publisher, Subscriber, Need, Broker, Category):
        for key in keys(kind):
            assert f"`{key}`" in text, f"{kind.__name__}.{key} is not in scenario.md"


def keys(kind: type) -> list[str]:
    """How a part of a scenario names its fields in YAML."""
    definitions = scenario_type().json_schema(by_alias=True)
    schema = definitions if kind is Scenario else definitions["$defs"][kind.__name__]
    assert len(schema["properties"]) == len(fields(kind))
    return list(schema["properties"])


def section(document: str, heading: str) -> str:
    """What stands under a heading, up to the next one."""
    (_, after) = (ROOT / "docs" / "reference" / document).read_text().split(f"# {heading}\n")
    return after.split("\n#")[0]


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        (ExchangeSettings, "`exchange`"),
        (WebSocket, "`exchange`"),
        (AccessRule, "`exchange.access`"),
        (User, "`exchange.users.<name>`"),
        (Token, "`exchange.tokens.<name>`"),
        (Limits, "`exchange.limits`"),
        (Tls, "`exchange.tls`"),
        (MqttSn, "`exchange.mqtt_sn`"),
        (Upstream, "`exchange.upstream`"),
        (Profile, "`exchange.profiles.<name>`"),
        (Cap, "`exchange.caps.<role>`"),
        (TelemetrySettings, "`exchange.telemetry`"),
        (ControlSettings, "`exchange.control`"),
        (SenseSettings, "`exchange.sense`"),
        (OverlaySettings, "`exchange.overlay`"),
        (DirectSettings, "`exchange.overlay.direct`"),
    ],
)
def test_every_setting_of_the_exchange_is_documented_in_its_section(kind, heading):
    rows = [line for line in section("scenario.md", heading).splitlines() if line.startswith("| `")]
    for key in keys(kind):
        assert any(f"`{key}`" in row for row in rows), f"{kind.__name__}.{key} is not under {heading}"


def test_the_example_of_the_exchange_settings_is_good():
    (example,) = code_blocks(ROOT / "docs" / "reference" / "scenario.md", "yaml")
    settings = from_text(example.replace("$...", "$c2FsdHNhbHQ$aGFzaA")).exchange
    assert settings.users["commander"].roles == ("command",)


def test_every_metrics_column_is_documented():
    text = (ROOT / "docs" / "reference" / "plan-and-metrics.md").read_text()
    for name in SCHEMA.names:
        assert f"`{name}`" in text


def paper_modules():
    for path in SOURCES:
        docstring = path.read_text().split('"""')[1]
        if re.search(r"^Implements:", docstring, flags=re.MULTILINE):
            parts = re.split(rf"^({'|'.join(PAPER_LINES)}):", docstring, flags=re.MULTILINE)
            yield path, {k: " ".join(v.split()) for k, v in zip(parts[1::2], parts[2::2], strict=True)}


def test_modules_that_implement_a_paper_say_so_in_four_lines_and_name_real_tests():
    found = dict(paper_modules())
    assert len(found) >= 6
    for path, lines in found.items():
        assert set(lines) == set(PAPER_LINES), f"{path.name} has {sorted(lines)}"
        for test in re.findall(r"tests/[\w/]+\.py", lines["Checked by"]):
            assert (ROOT / test).exists(), f"{path.name} names {test}"


def test_the_table_from_papers_to_code_is_up_to_date():
    rows = [
        f"| `{path.relative_to(ROOT / 'src')}` | {lines['Implements']} | {lines['Differs']} | {lines['Symbols']} |"
        for path, lines in paper_modules()
    ]
    table = "\n".join(
        [
            "# Papers to code",
            "",
            "Made by `tests/test_docs.py` from the modules' own opening lines.",
            "",
            "| module | implements | differs | symbols |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )
    target = ROOT / "docs" / "background" / "papers-to-code.md"
    if not target.exists() or target.read_text() != table:
        target.write_text(table)
        pytest.fail(f"{target.name} was out of date and has been rewritten; commit it")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


@pytest.mark.parametrize("document", [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"
