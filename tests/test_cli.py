"""The command line as its users meet it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from firelane.cli import main
from firelane.cli.group import VERBS

GOOD = """
name: post
links: {radio: {bandwidth: 2 Mbps, buffer: 500, propagation: 5 ms}}
topics: {smoke/1: {size: 120 B}, camera/1: {size: 12 kB}}
publishers: {floor: {publishes: {smoke/1: 40 Hz, camera/1: 12 Hz}}}
subscribers:
  commander: {link: radio, subscribes: {smoke/+: {weight: 4}, camera/1: {weight: 2}}}
  logger: {link: radio, subscribes: {"#": {weight: 0.5}}}
"""


def firelane(*arguments: object):
    """Run a command in this process."""
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "post.yaml"
    path.write_text(GOOD)
    return path


def test_predict_json_has_the_documented_shape(good):
    data = json.loads(firelane("predict", good, "--json", "--per-subscription").stdout)
    assert {"source", "scenario", "links", "classes", "utility", "subscriptions"} <= set(data)
    assert data["source"] == "predicted"
    assert set(data["links"]["radio"]) == {"load", "stable"}
    row = {"priority", "stable", "offered_hz", "delivered_hz", "success", "delay_mean_s", "utility"}
    assert all(row <= set(one) for one in data["classes"])
    assert {"achieved", "maximum", "rate", "mean_of_ratios"} <= set(data["utility"])
    assert len(data["subscriptions"]) == 3
    assert data["classes"][0]["delay_mean_s"] is None  # overloaded


def test_simulate_json_adds_events_errors_and_percentiles(good):
    command = ("simulate", good, "--publications", 2000, "--replications", 3, "--seed", 1, "--json")
    data = json.loads(firelane(*command).stdout)
    assert data["events"] > 0
    assert data["events_per_s"] > 0
    assert data["seed"] == 1
    assert {"delay_p50_s", "delay_p95_s", "delay_p99_s", "delay_mean_se_s", "success_se"} <= set(data["classes"][0])
    assert json.loads(firelane(*command).stdout)["classes"] == data["classes"]


def test_a_plan_goes_through_its_file_and_changes_what_happens(good, tmp_path):
    plan = tmp_path / "plan.json"
    assert firelane("tune", good, "-o", plan).exit_code == 0
    before = json.loads(firelane("predict", good, "--json").stdout)
    after = json.loads(firelane("predict", good, "--plan", plan, "--json").stdout)
    promised = json.loads(plan.read_text())["promised"]["utility_rate"]
    assert after["utility"]["rate"] > before["utility"]["rate"]
    assert after["utility"]["rate"] == pytest.approx(promised, abs=1e-9)
    assert after["links"]["radio"]["load"] == pytest.approx(0.9, abs=1e-9)


@pytest.mark.parametrize("priorities", ["none", "random", "information", "bandwidth-adjusted", "delay-adjusted"])
@pytest.mark.parametrize("drops", ["none", "flat", "linear", "exponential", "optimised"])
def test_every_way_to_decide_works_from_the_command_line(good, priorities, drops):
    result = firelane("tune", good, "--priorities", priorities, "--drops", drops, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["made_by"] == f"tune {priorities}+{drops}"


def test_a_plan_for_another_scenario_is_used_with_a_warning(good, tmp_path):
    plan = tmp_path / "plan.json"
    firelane("tune", "office-fire", "-o", plan)
    result = firelane("predict", good, "--plan", plan, "--json")
    assert result.exit_code == 0
    assert "made for another" in result.stderr
    assert "51 subscriptions" in result.stderr  # all but the commander's smoke/+, which both have


def test_people_see_what_each_subscription_gets(good):
    for command in (("predict", good), ("simulate", good, "--publications", 2000), ("tune", good)):
        assert "camera/1" in firelane(*command).stdout
    for verb in ("predict", "tune"):
        assert "crew/+/vitals" not in firelane(verb, "office-fire").stdout
        assert "crew/+/vitals" in firelane(verb, "office-fire", "--per-subscription").stdout


def test_a_simulation_says_its_seed(good):
    assert "2 replications, seed 7" in firelane(
        "simulate", good, "--publications", 2000, "--replications", 2, "--seed", 7
    ).stdout.replace("\n", " ")


def test_one_link_is_not_links(good):
    assert firelane("check", good).stdout == (
        "post: good; 2 topics, 1 publisher, 2 subscribers, 3 subscriptions, 1 link\n"
    )


def test_metrics_are_written_as_parquet(good, tmp_path):
    from pyarrow import parquet

    assert firelane("predict", good, "-o", tmp_path / "m.parquet").exit_code == 0
    assert parquet.read_table(tmp_path / "m.parquet").num_rows == 3


BAD_FILES = {
    "unit": (
        GOOD.replace("2 Mbps", "2 Mbsp"),
        'links.radio.bandwidth: "2 Mbsp" is not a bandwidth; write e.g. "8 Mbps"',
    ),
    "misspelt key": (GOOD.replace("buffer", "bufer"), "did you mean buffer?"),
    "unknown link": (GOOD.replace("link: radio", "link: radoi"), "did you mean radio?"),
    "unknown topic": (GOOD.replace("smoke/1: 40 Hz", "smok/1: 40 Hz"), "did you mean smoke/1?"),
    "negative rate": (GOOD.replace("40 Hz", "-40 Hz"), "out of range for a rate"),
    "not a number": (GOOD.replace("weight: 4", "weight: .nan"), "not a weight"),
    "duplicate": (GOOD + "name: again\n", '"name" is given twice'),
    "empty": ("", "empty"),
    "no match": (GOOD.replace('"#"', "fire/+"), "matches no topic"),
    "bomb": ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{n}: &{n} [{','.join(['*' + p] * 10)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)), "aliases"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_input_gets_one_line_and_exit_1(kind, tmp_path):
    text, expected = BAD_FILES[kind]
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    result = firelane("check", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert expected in result.stderr
    assert str(path) in result.stderr


def test_binary_huge_missing_and_unreadable_files_get_one_line(tmp_path):
    binary, huge = tmp_path / "binary.yaml", tmp_path / "huge.yaml"
    binary.write_bytes(bytes(range(256)))
    with huge.open("wb") as file:
        file.truncate(200_000_000)
    for path in (binary, huge, tmp_path / "missing.yaml", tmp_path):
        result = firelane("predict", path)
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1, result.stderr


def test_wrong_usage_exits_2(good):
    assert firelane("simulate", good, "--publications", 0).exit_code == 2
    assert firelane("tune", good, "--drops", "some").exit_code == 2
    assert firelane("tune", good, "--headroom", "lots").exit_code == 2
    assert firelane("nonsense").exit_code == 2


def test_what_cannot_be_kept_is_an_error_in_one_line(good):
    good.write_text(GOOD.replace("{weight: 2}", "{min_share: 1}").replace("2 Mbps", "1 Mbps"))
    result = firelane("tune", good)
    assert result.exit_code == 1
    assert "links.radio" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_outputs_that_cannot_be_written_get_one_line(good, tmp_path):
    for command in (("tune", good), ("predict", good), ("generate", "office-fire")):
        result = firelane(*command, "-o", tmp_path / "no" / "folder" / "file")
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1, result.stderr


def test_a_traceback_only_with_debug(tmp_path):
    missing = tmp_path / "missing.yaml"
    for flags, traceback in ((["--debug"], True), ([], False)):
        command = [sys.executable, "-m", "firelane.cli", *flags, "check", str(missing)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) == traceback


def test_an_interrupt_gets_one_line_and_exit_130(good, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("firelane.scenario.load", interrupted)
    result = firelane("check", good)
    assert result.exit_code == 130
    assert result.stdout == ""
    assert result.stderr == "firelane: interrupted\n"


def test_an_exchange_does_not_load_what_only_planning_and_streams_need():
    code = (
        "import sys, firelane.exchange.run; heavy = ('numba', 'scipy', 'matplotlib', 'pandas', 'cyclonedds'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_does_not_load_the_heavy_libraries():
    code = (
        "import sys; from firelane.cli import main; main(['--help'], standalone_mode=False); "
        "heavy = ('numpy', 'numba', 'pyarrow', 'matplotlib', 'pyspark'); print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "simulate" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_verb_loads_its_own_module_and_no_other_verbs():
    code = (
        "import sys; from firelane.cli import main; main(['predict', '--help'], standalone_mode=False); "
        "print(sorted(m.rpartition('.')[2] for m in sys.modules if m.startswith('firelane.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['group', 'metrics', 'options', 'output']"


@pytest.mark.parametrize("module", VERBS)
def test_verbs_are_where_the_group_looks_for_them(module):
    code = f"import firelane.cli.{module}; from firelane.cli import main; print(*main.commands)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(VERBS[module]) <= set(done.stdout.split())


def test_a_verb_that_does_not_exist_is_told_what_was_meant():
    result = firelane("simulte")
    assert result.exit_code == 2
    assert "simulate" in result.stderr


@pytest.mark.parametrize("what", ["firedex", "city-cells", "office-fire"])
def test_generated_files_are_good(what, tmp_path):
    path = tmp_path / "made.yaml"
    assert firelane("generate", what, "--seed", 3, "-o", path).exit_code == 0
    assert firelane("check", path).exit_code == 0
    first = path.read_text()
    firelane("generate", what, "--seed", 3, "-o", path)
    assert path.read_text() == first


def test_a_scenario_goes_to_stdout_unless_a_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert firelane("generate", "office-fire", "-o", "made.yaml").stdout == "written to made.yaml\n"
    for to_stdout in ((), ("-o", "-")):
        assert firelane("generate", "office-fire", *to_stdout).stdout == (tmp_path / "made.yaml").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["made.yaml"]


def test_reproduce_shows_its_summary_and_where_the_rest_is(tmp_path, monkeypatch):
    def reproduce(folder, **_):
        (folder / "report.md").write_text("# Report\n\nHow.\n\n## In short\n\nIt holds.\n\n### Why\n\nBecause.\n")

    monkeypatch.setattr("firelane.reproduce.firedex.reproduce", reproduce)
    shown = firelane("reproduce", "firedex", "-o", tmp_path).stdout
    assert "It holds." in shown
    assert "How." not in shown
    assert "Because." not in shown
    assert str(tmp_path / "report.md") in shown


@pytest.mark.parametrize("name", ["[/foo]", "[red]x", ":ambulance:", "\x1b]0;title\x07"])
def test_names_are_shown_as_they_are_and_never_as_commands(name, good):
    good.write_text(GOOD.replace("name: post", f"name: {json.dumps(name)}"))
    for verb in ("check", "predict", "tune"):
        result = firelane(verb, good)
        assert result.exit_code == 0, result.stderr
        assert "\x1b" not in result.stdout
    assert name.replace("\x1b", "\\x1b").replace("\x07", "\\x07") in firelane("check", good).stdout


def test_a_terminal_without_greek_letters_still_gets_its_tables(good):
    import os

    command = [sys.executable, "-m", "firelane.cli", "simulate", str(good), "--publications", "500"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_a_scenario_without_subscribers_can_be_looked_at(good):
    good.write_text("name: x\ntopics: {a: {size: 1}}\npublishers: {p: {publishes: {a: 1}}}\n")
    for verb in ("check", "predict", "tune", "simulate"):
        assert firelane(verb, good).exit_code == 0, verb


def test_a_password_piped_in_becomes_a_hash_of_it():
    from argon2 import PasswordHasher

    result = CliRunner().invoke(main, ["password"], input=b"caf\xc3\xa9 #1\nnot this\n")
    assert result.exit_code == 0
    assert PasswordHasher().verify(result.stdout.removesuffix("\n"), "café #1")
    assert result.stderr == ""


def test_a_password_is_asked_for_twice_and_only_the_hash_is_printed(monkeypatch):
    from argon2 import PasswordHasher

    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    result = CliRunner().invoke(main, ["password"], input="typed\nmistyped\nright\nright\n")
    assert PasswordHasher().verify(result.stdout.removesuffix("\n"), "right")
    assert "do not match" in result.stderr
    assert "typed" not in result.output


def test_no_password_is_an_error_in_one_line():
    for nothing in ("", "\n"):
        result = CliRunner().invoke(main, ["password"], input=nothing)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr == "firelane: there is no password in the input; type one, or pipe it in\n"


def test_a_file_that_only_serves_is_good_but_nothing_to_work_on(tmp_path):
    path = tmp_path / "broker.yaml"
    path.write_text("name: broker\nexchange: {anonymous: always}\n")
    assert firelane("check", path).exit_code == 0
    for verb in ("predict", "simulate", "tune"):
        result = firelane(verb, path)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1].startswith("firelane: topics: there are none")


def numbers(group, *words):
    """Every option of the command line that takes a number which need not be whole, with its command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from numbers(command, *words, name)
            continue
        for option in command.params:
            if isinstance(option.type, click.types.FloatParamType):
                yield (*words, name, option.opts[0])


@pytest.mark.parametrize("words", list(numbers(main)), ids=" ".join)
def test_no_option_takes_what_is_no_number(words):
    result = firelane(*words, "nan")
    assert result.exit_code == 2
    assert f"Invalid value for '{words[-1]}'" in result.stderr
    assert "'nan' is not a number" in result.stderr


SOMEWHERE = ("--registry", "zookeeper://127.0.0.1:1/firelane")


@pytest.mark.parametrize("role", ["edge", "router"])
@pytest.mark.parametrize(
    "locator",
    ["foo", "foo:bar", "1.2.3.4:99999", "1.2.3.4:0", ":1883", "http://x:1883", "127.0.0.1", "", "::1:1883", "h:٣"],
)
def test_where_nobody_can_be_reached_is_wrong_usage(role, locator):
    result = firelane(role, *SOMEWHERE, "--locator", locator)
    assert result.exit_code == 2
    assert "say where others reach this broker, e.g. 10.0.0.5:1883" in result.stderr


@pytest.mark.parametrize("name", ["", "a b", "a/b", "+", "#1", "ä" * 200])
def test_a_bad_name_is_wrong_usage_and_never_that_of_the_host(name):
    result = firelane("edge", *SOMEWHERE, "--name", name)
    assert result.exit_code == 2
    assert "use at most 240" in result.stderr or "no spaces, /, + and #" in result.stderr


@pytest.mark.parametrize("command", [("edge",), ("router",), ("overlay", "status"), ("overlay", "forget", "x")])
@pytest.mark.parametrize("registry", ["nonsense", "zookeeper://", "zookeeper://h:x", "zookeeper://h//r", "memory://x"])
def test_a_registry_where_nobody_is_met_is_wrong_usage(command, registry):
    result = firelane(*command, "--registry", registry)
    assert result.exit_code == 2
    assert "; write zookeeper://HOST:PORT,HOST:PORT/ROOT\n" in result.stderr
    assert "or memory" not in result.stderr


def test_who_asks_a_registry_that_is_away_is_told_and_need_not_wait_for_long():
    began = time.monotonic()
    result = firelane("overlay", "status", *SOMEWHERE)
    assert time.monotonic() - began < 8
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first == "firelane: asking zookeeper://127.0.0.1:1/firelane"
    assert second.startswith("firelane: no ZooKeeper answers at 127.0.0.1:1 within 3 s; ")
