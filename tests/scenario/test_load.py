"""Scenario files: what they mean, and one helpful line for every kind of bad one."""

import errno
import os
import time

import numpy as np
import pytest

from firelane.errors import ScenarioError
from firelane.scenario import Link, Need, Topic, from_data, from_text, load, shipped_scenarios
from firelane.scenario.save import to_text

GOOD = """\
name: office-fire
priorities: 9            # classes the network offers
headroom: 0.1
links:
  post: {bandwidth: 8 Mbps, buffer: 2000, propagation: 2 ms, loss: 0, overhead: auto}
topics:
  smoke/3: {size: 120 B, sizes: exponential}
  door/3: {sizes: [90 B, 110 B]}
publishers:
  bms-3: {publishes: {smoke/3: 6 Hz}}
subscribers:
  commander:
    link: post
    match: {client_id: "cmd-*"}
    subscribes:
      smoke/+: {utility: log, weight: 4, max_delay: 100 ms, max_loss: 1 %, min_share: 0, category: real-time}
brokers: {main: {input_rate: 50 kHz, output_rate: 50 kHz}}
"""

NEED = "subscribers.commander.subscribes.smoke/+"


def problem_of(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        from_text(text, source="my.yaml")
    message = str(caught.value)
    assert message.startswith("my.yaml: ")
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    assert len(message) < 400
    return message.removeprefix("my.yaml: ")


def replaced(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


# ------------------------------------------------------------------------------------------ good files


def test_the_example_means_what_it_says():
    scenario = from_text(GOOD)
    assert scenario.name == "office-fire"
    assert (scenario.priorities, scenario.headroom, scenario.flows) == (9, 0.1, None)
    assert scenario.links == {"post": Link(bandwidth_bps=8e6, buffer_messages=2000, propagation_s=0.002)}
    assert scenario.topics["smoke/3"] == Topic(size_bytes=120.0)
    assert scenario.topics["door/3"].mean_bytes == 100
    assert scenario.topics["door/3"].variance_bytes2 == 100
    assert scenario.publishers["bms-3"].publishes == {"smoke/3": 6.0}
    commander = scenario.subscribers["commander"]
    assert commander.subscribes == {"smoke/+": Need(weight=4.0, max_delay_s=0.1, max_loss=0.01, category="real-time")}
    assert commander.match is not None
    assert commander.match.client_id == "cmd-*"
    assert scenario.brokers["main"].input_hz == 50_000


def test_anchors_merges_and_empty_needs_are_plain_yaml():
    scenario = from_text(
        "name: n\nlinks: {a: &fast {bandwidth: 8 Mbps, loss: 1 %}, b: {<<: *fast, loss: 2 %}}\n"
        "topics: {t: {size: 1 B}}\nsubscribers: {s: {link: b, subscribes: {t: }}}\n"
    )
    assert scenario.links["b"] == Link(bandwidth_bps=8e6, loss=0.02)
    assert scenario.subscribers["s"].subscribes == {"t": Need()}


def test_the_default_link_is_each_subscribers_own_and_without_limit():
    link = from_text("name: n").link("default")
    assert link.each
    assert link.paced_bps == float("inf")


@pytest.mark.parametrize("name", ["firedex", "firedex-shared", "office-fire", "city"])
def test_the_shipped_scenarios_load_by_name(name):
    assert load(name) == load(shipped_scenarios()[name])
    assert load(name).name == name


def test_a_file_before_a_shipped_scenario_of_the_same_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "firedex").write_text("name: mine")
    assert load("firedex").name == "mine"


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter(tmp_path):
    file = tmp_path / "windows.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load(file) == from_text(GOOD)


def test_a_digest_changes_with_the_scenario_and_only_then():
    assert from_text(GOOD).digest() == from_text(GOOD + "# a comment\n").digest()
    assert from_text(GOOD).digest() != from_text(replaced("weight: 4", "weight: 4.000001")).digest()


# ------------------------------------------------------------------------------------ values and keys


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        # Misspelt keys at every level.
        ("topics:", "topcis:", "topcis", "there is no such key; did you mean topics?"),
        ("bandwidth:", "bandwith:", "links.post.bandwith", "did you mean bandwidth?"),
        ("{size:", "{sise:", "topics.smoke/3.sise", "did you mean size?"),
        ("publishes:", "publish:", "publishers.bms-3.publish", "did you mean publishes?"),
        ("subscribes:", "subscribe:", "subscribers.commander.subscribe", "did you mean subscribes?"),
        ("client_id:", "clientid:", "subscribers.commander.match.clientid", "did you mean client_id?"),
        ("weight:", "wieght:", f"{NEED}.wieght", "did you mean weight?"),
        ("input_rate:", "input:", "brokers.main.input", "did you mean input_rate?"),
        ("weight:", "zzz:", f"{NEED}.zzz", "choose from: utility, weight"),
        # Missing ones.
        ("name: office-fire\n", "", "name", "missing; add it"),
        ("{publishes: {smoke/3: 6 Hz}}", "{}", "publishers.bms-3.publishes", "missing; add it"),
        # References to nothing.
        ("link: post", "link: pots", "subscribers.commander.link", '"pots" is not a link of this scenario; did'),
        ("link: post", "link: zzz", "subscribers.commander.link", "choose from: post, default"),
        ("{publishes:", "{link: pots, publishes:", "publishers.bms-3.link", '"pots" is not a link'),
        ("smoke/3: 6", "smoke/4: 6", "publishers.bms-3.publishes", '"smoke/4" is not a topic of this scenario; did'),
        ("smoke/+:", "smok/+:", "subscribers.commander.subscribes.smok/+", "this filter matches no topic"),
        ("smoke/+:", "smoke/4:", "subscribers.commander.subscribes.smoke/4", "did you mean smoke/3?"),
        # Malformed topics and filters.
        ("door/3:", "door/+:", "topics.door/+", "may not contain + or #"),
        ("door/3:", '"":', "topics.", "may not be empty"),
        ("smoke/+:", '"smoke/#/a":', "subscribers.commander.subscribes.smoke/#/a", "# must be the whole last level"),
        ("smoke/+:", "smoke+:", "subscribers.commander.subscribes.smoke+", "+ must be a whole level"),
        ("smoke/+:", "$share/g/smoke/+:", "subscribers.commander.subscribes.$share", "name the plain filter"),
        # Numbers that are none, or out of range.
        ("8 Mbps", "8 Mbsp", "links.post.bandwidth", '"8 Mbsp" is not a bandwidth; write e.g. "8 Mbps"'),
        ("8 Mbps", "0", "links.post.bandwidth", 'out of range for a bandwidth; write e.g. "8 Mbps" (more than 0)'),
        ("8 Mbps", "[8]", "links.post.bandwidth", "is not a bandwidth"),
        ("6 Hz", "-6 Hz", "publishers.bms-3.publishes.smoke/3", 'out of range for a rate; write e.g. "6 Hz"'),
        ("6 Hz", ".nan", "publishers.bms-3.publishes.smoke/3", "is not a rate; write e.g."),
        ("6 Hz", ".inf", "publishers.bms-3.publishes.smoke/3", "is not a rate; write e.g."),
        ("6 Hz", "1e999", "publishers.bms-3.publishes.smoke/3", "is not a rate; write e.g."),
        ("6 Hz", "1" + "0" * 400, "publishers.bms-3.publishes.smoke/3", "is not a rate; write e.g."),
        ("6 Hz", "1" + "0" * 5000, "publishers.bms-3.publishes.smoke/3", "is not a rate; write e.g."),
        ("6 Hz", "true", "publishers.bms-3.publishes.smoke/3", "is not a rate; write e.g."),
        ("6 Hz", "x" * 10_000, "publishers.bms-3.publishes.smoke/3", "is not a rate; write e.g."),
        ("120 B", "-1 B", "topics.smoke/3.size", "out of range for a size"),
        ("2 ms", "2 parsecs", "links.post.propagation", 'is not a duration; write e.g. "2 ms"'),
        ("loss: 0", "loss: 101 %", "links.post.loss", "out of range for a share"),
        ("overhead: auto", "overhead: lots", "links.post.overhead", 'write e.g. "120 B" (0 or more), or "auto"'),
        ("overhead: auto", "pace: 0", "links.post.pace", "greater than 0"),
        ("overhead: auto", "switch_rate: 0", "links.post.switch_rate", "greater than 0"),
        ("overhead: auto", "each: maybe", "links.post.each", "neither true nor false"),
        ("buffer: 2000", "buffer: 0", "links.post.buffer", "greater than or equal to 1"),
        ("buffer: 2000", "buffer: many", "links.post.buffer", '"many" is not a whole number; write e.g. 9'),
        ("buffer: 2000", "buffer: 1.5", "links.post.buffer", "is not a whole number"),
        ("buffer: 2000", "buffer: .inf", "links.post.buffer", "is not a whole number"),
        ("buffer: 2000", "buffer: " + "9" * 30, "links.post.buffer", "less than or equal to"),
        ("priorities: 9", "priorities: 0", "priorities", "greater than or equal to 1"),
        ("priorities: 9", "priorities: 17", "priorities", "less than or equal to 16"),
        ("headroom: 0.1", "headroom: 1", "headroom", "less than 1"),
        ("headroom: 0.1", "flows: 0", "flows", "greater than or equal to 1"),
        ("max_loss: 1 %", "max_loss: 2", f"{NEED}.max_loss", "from 0 to 1"),
        ("min_share: 0", "min_share: -1", f"{NEED}.min_share", "from 0 to 1"),
        ("weight: 4", "weight: heavy", f"{NEED}.weight", "is not a weight"),
        # Words that are none of those allowed, and parts that do not go together.
        ("utility: log", "utility: logg", f"{NEED}.utility", "is not one of 'log'"),
        ("utility: log", "keep: none", f"{NEED}.keep", "is not one of 'all'"),
        ("utility: log", "knee: 0.5", NEED, "not log; remove it"),
        ("utility: log", "utility: step, knee: 0", NEED, "more than 0; write"),
        ("utility: log", "utility: piecewise", NEED, "give both or neither"),
        ("utility: log", "utility: piecewise, points: 5", f"{NEED}.points", "write [share"),
        (
            "utility: log",
            "utility: piecewise, points: [[0, 0], [0.5, 0.1], [1, 1]]",
            f"{NEED}.points",
            "must bend downwards (concave); write",
        ),
        (
            "utility: log",
            "utility: piecewise, points: [[0, 0], [0.5, 0.9], [1, 0.8]]",
            f"{NEED}.points",
            "values may not fall; write",
        ),
        (
            "utility: log",
            "utility: piecewise, points: [[0, 0], [0.5, 0.9]]",
            f"{NEED}.points",
            "from [0, 0] to share 1; write",
        ),
        ("sizes: exponential", "sizes: gauss", "topics.smoke/3.sizes", "write exponential, fixed or a list"),
        ("[90 B, 110 B]", "[]", "topics.door/3.sizes", "write at least one"),
        ("[90 B, 110 B]", "[90 B, 1 stone]", "topics.door/3.sizes", '"1 stone" is not a size'),
        ("sizes: exponential", "sizes: [1 B]", "topics.smoke/3", "give a size"),
        ("{size: 120 B, sizes: exponential}", "{}", "topics.smoke/3", "give a size"),
        # The wrong kind of thing.
        ("{size: 120 B, sizes: exponential}", "120 B", "topics.smoke/3", '"120 B" is not a mapping; write keys'),
        ("{main: {input_rate: 50 kHz, output_rate: 50 kHz}}", "[main]", "brokers", "is not a mapping; write"),
        ("{main: {input_rate: 50 kHz, output_rate: 50 kHz}}", "", "brokers", '"null" is not a mapping; write'),
        ("{publishes: {smoke/3: 6 Hz}}", "", "publishers.bms-3", "is not a mapping; write"),
        ("name: office-fire", "name: 5", "name", "is not text; write a word, or put it in quotes"),
        ("name: office-fire", "name: ''", "name", "is empty; write a name"),
        ("category: real-time", "category: 5", f"{NEED}.category", "put it in quotes"),
        ("link: post", "link: [post]", "subscribers.commander.link", "is not text"),
        ("bms-3:", '"":', "publishers", "is not a name"),
    ],
)  # fmt: skip
def test_a_bad_value_gets_one_line_naming_the_key_and_the_remedy(old, new, key, words):
    message = problem_of(replaced(old, new))
    assert message.startswith(key)
    assert words in message


def test_the_error_keeps_its_facts_as_attributes():
    with pytest.raises(ScenarioError) as caught:
        from_text(replaced("8 Mbps", "8 Mbsp"), source="my.yaml")
    assert (caught.value.source, caught.value.key) == ("my.yaml", "links.post.bandwidth")
    assert caught.value.problem.startswith('"8 Mbsp" is not a bandwidth')


def test_further_problems_are_counted():
    text = replaced("8 Mbps", "8 Mbsp").replace("6 Hz", "6 Hurts")
    assert problem_of(text).endswith("(and 1 more)")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([1], "is not a mapping"),
        (None, "is not a mapping"),
        ({"name": "\ud800"}, "name: "),
        ({"name": "n", "topics": {"\ud800": {"size": 1}}}, "must be valid UTF-8"),
        ({"name": "n", "subscribers": {"\ud800": {"subscribes": {}}}}, "is not a name"),
        ({"name": "n", "topics": {1: {"size": 1}}}, "topics.1"),
    ],
)
def test_plain_data_are_checked_like_files(data, words):
    with pytest.raises(ScenarioError) as caught:
        from_data(data)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


# ---------------------------------------------------------------------------------------- YAML itself


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty; see `firelane generate"),
        ("# only a comment\n", "the file is empty"),
        ("- a\n- b\n", "must be a mapping that starts with"),
        ("just words", "must be a mapping that starts with"),
        ("name: [a", "this is not YAML"),
        ("name: a: b", "line 1: this is not YAML"),
        ("name:\n\t- a", "line 2: this is not YAML"),
        ("name: \x01", "this is not YAML"),
        ("name: '\ud800'", "is not valid Unicode"),
        (GOOD + "name: other\n", 'line 18: "name" is given twice; names must be unique'),
        (GOOD.replace("door/3:", "smoke/3:"), 'line 8: "smoke/3" is given twice'),
        ('name: n\ntopics: {"a\\nb": {size: 1 B}, "a\\nb": {size: 1 B}}', "given twice"),
        (f"name: n\n---\n{GOOD}", "line 3: a second YAML document starts; keep one per file"),
        ("name: !!python/object:os.system ls", "python/object:os.system is not used here; remove it"),
        ("name: !!python/object/apply:os.system [ls]", "python/object/apply:os.system is not used here"),
        ("!mine {name: n}", "the tag !mine is not used here; remove it"),
        ("name: *nobody", "alias *nobody refers to nothing"),
        ("name: &a [*a]", "alias *a refers to nothing complete before it"),
        ("&a name: *a", "alias *a refers to nothing"),
        ("{a: b}: c", "a key must be a plain name"),
        ("name: n\n<<: 5", "<< merges a mapping"),
        ("name: " + "[" * 100_000, "more than 32 levels deep; flatten"),
        ("name: " + "{a: " * 1000, "more than 32 levels deep; flatten"),
    ],
)
def test_bad_yaml_gets_one_line(text, words):
    assert words in problem_of(text)


def test_a_yaml_bomb_is_refused_at_once():
    lines = ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]
    started = time.process_time()
    assert "values with aliases expanded" in problem_of("\n".join(lines))
    assert time.process_time() - started < 1


def test_a_bomb_of_merges_is_refused_too():
    lines = ["l0: &l0 {a: x, b: x, c: x}"]
    lines += [f"l{n}: &l{n} {{{', '.join(f'{key}: *l{n - 1}' for key in 'abcdefghi')}}}" for n in range(1, 30)]
    lines.append("last: {<<: *l29}")
    assert "values with aliases expanded" in problem_of("\n".join(lines))


def test_a_key_of_64_kilobytes_is_shortened_in_the_message():
    text = "name: n\ntopics: {a: {size: 1 B}}\nsubscribers: {s: {subscribes: {? " + "x" * 65_000 + " : {}}}}"
    assert "this filter matches no topic" in problem_of(text)


# ---------------------------------------------------------------------------------------------- files


def file_problem(source) -> str:
    with pytest.raises(ScenarioError) as caught:
        load(source)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    return message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (bytes(range(128)), "this is a binary file"),
        (b"\x7fELF\x02\x01\x01" + bytes(100), "this is a binary file"),
        (b"name: \xff\xfe", "byte 6 is not UTF-8 text"),
        ("name: n".encode("utf-16"), "is not UTF-8 text"),
        (b"name: n\nlinks: {post: {bandwidth: 8 Mbsp}}", 'links.post.bandwidth: "8 Mbsp" is not a bandwidth; write'),
    ],
    ids=["empty", "binary", "program", "latin", "utf-16", "unit"],
)  # fmt: skip
def test_a_bad_file_is_named_in_its_line(tmp_path, content, words):
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    message = file_problem(file)
    assert message.startswith(f"{file}: ")
    assert words in message


def test_a_file_of_200_mb_is_not_even_read(tmp_path):
    file = tmp_path / "big.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(200_000_000)
    started = time.process_time()
    assert "200 MB is more than the 64 MB a scenario may have" in file_problem(file)
    assert time.process_time() - started < 0.5


def test_a_device_without_end_is_read_no_further_than_allowed():
    assert "more than 64 MB" in file_problem("/dev/zero")


def test_a_folder_is_no_scenario(tmp_path):
    assert "this is a folder; name a scenario file" in file_problem(tmp_path)


def test_a_missing_file_lists_what_there_is(tmp_path):
    assert "there is no such file or shipped scenario; choose from: city, firedex" in file_problem(tmp_path / "x.yaml")
    assert "did you mean office-fire?" in file_problem("office-fier")


def test_names_that_no_file_can_have_get_one_line(tmp_path):
    (tmp_path / "file").write_text("name: n")
    for name in ("x" * 5000, "a\0b", tmp_path / "file" / "below"):
        file_problem(name)


def test_an_unreadable_file_says_why():
    assert "this file cannot be read: Input/output error" in file_problem("/proc/self/mem")


def test_a_file_without_permission_says_so(tmp_path, monkeypatch):
    file = tmp_path / "secret.yaml"
    file.write_text(GOOD)

    def refuse(*_: object) -> None:  # root may read everything, so the system's answer is played
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(type(file), "open", refuse)
    assert "this file cannot be read: Permission denied" in file_problem(file)


@pytest.mark.slow
def test_100_000_subscriptions_load_in_5_s(tmp_path):
    from firelane.scenario.generate import city

    file = tmp_path / "city.yaml"
    file.write_text(to_text(city(seed=1, vehicles=20_000)))
    started = time.process_time()
    scenario = load(file)
    assert time.process_time() - started < 5
    assert sum(len(one.subscribes) for one in scenario.subscribers.values()) >= 100_000


def test_a_long_list_of_sizes_takes_linear_time():
    sizes = [float(n % 997) for n in range(200_000)]
    topic = from_data({"name": "x", "topics": {"a": {"sizes": sizes}}}).topics["a"]
    assert topic.variance_bytes2 == pytest.approx(np.var(sizes))


def test_a_scenario_for_live_use_needs_no_topics():
    data = {"name": "site", "links": {"thin": {"bandwidth": "1 Mbps"}},
            "subscribers": {"post": {"link": "thin", "subscribes": {"alarms/#": {"weight": 5}}}}}  # fmt: skip
    assert from_data(data).subscribers["post"].subscribes["alarms/#"].weight == 5


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ({"client_id": "post"}, 'client_id "post" is post already'),
        ({"address": "10.0.0.300"}, '"10.0.0.300" is not an address range'),
    ],
)
def test_a_live_client_can_be_only_one_subscriber(match, words):
    data = {"name": "site", "subscribers": {"post": {"subscribes": {}}, "other": {"subscribes": {}, "match": match}}}
    with pytest.raises(ScenarioError, match=words):
        from_data(data)


def test_categories_are_read_with_units_and_unknown_keys_are_refused():
    text = "name: n\ncategories: {real-time: {weight: 4, max_delay: 20 ms, max_delay_p95: 50 ms, max_loss: 1 %}}"
    one = from_text(text).categories["real-time"]
    assert (one.weight, one.max_delay_s, one.max_delay_p95_s, one.max_loss) == (4, 0.02, 0.05, 0.01)
    with pytest.raises(ScenarioError, match=r"categories\.real-time\.max_dealy"):
        from_text(text.replace("max_delay:", "max_dealy:"))
