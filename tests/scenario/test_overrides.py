"""Settings from the command line and the environment."""

import copy

import pytest

from firelane.errors import ScenarioError
from firelane.scenario.overrides import load_exchange, with_overrides
from firelane.scenario.settings import AccessRule

FILE = """\
name: hall
exchange:
  keep_alive: 10 s
  limits: {queue: 5, inflight: 6}
  users: {a: &same {roles: [x]}, b: *same}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hall.yaml"
    path.write_text(FILE)
    return path


def problem_of(*assignments: str, source=None, **environment: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_exchange(source, assignments, environment)
    message = str(caught.value)
    assert message.isprintable()
    return message


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(file):
    variable = {"FIRELANE_EXCHANGE__KEEP_ALIVE": "20 s"}
    assert load_exchange(file).exchange.keep_alive_s == 10
    assert load_exchange(file, [], variable).exchange.keep_alive_s == 20
    assert load_exchange(file, ["exchange.keep_alive=30 s"], variable).exchange.keep_alive_s == 30
    assert load_exchange(file, ["exchange.keep_alive=30 s", "exchange.keep_alive=40"]).exchange.keep_alive_s == 40


def test_what_is_not_named_stays_as_the_file_has_it(file):
    exchange = load_exchange(file, ["exchange.limits.queue=7"], {"FIRELANE_EXCHANGE__ANONYMOUS": "never"}).exchange
    assert (exchange.limits.queue, exchange.limits.inflight, exchange.keep_alive_s) == (7, 6, 10)
    assert exchange.anonymous == "never"


def test_without_a_file_there_are_only_the_overrides():
    scenario = load_exchange(None, ["exchange.websocket.port=0"], {"FIRELANE_EXCHANGE__LIMITS__QUEUE": "9"})
    assert scenario.name == "exchange"
    assert scenario.exchange.websocket.port == 0
    assert scenario.exchange.limits.queue == 9


def test_lists_and_mappings_can_be_given_and_replace_what_was_there(file):
    rule = "[{who: '*', filter: '#', allow: [publish]}]"
    exchange = load_exchange(file, [f"exchange.access={rule}", "exchange.limits={queue: 8}"]).exchange
    assert exchange.access == (AccessRule(who="*", filter="#", allow=("publish",)),)
    assert (exchange.limits.queue, exchange.limits.inflight) == (8, 100)


def test_a_section_from_the_environment_comes_before_the_keys_inside_it():
    variables = {"FIRELANE_EXCHANGE__LIMITS__QUEUE": "9", "FIRELANE_EXCHANGE__LIMITS": "{queue: 8, inflight: 7}"}
    limits = load_exchange(None, [], variables).exchange.limits
    assert (limits.queue, limits.inflight) == (9, 7)


def test_an_empty_value_sets_a_key_back_to_none(file):
    assert load_exchange(file, ["exchange.keep_alive="]).exchange.keep_alive_s is None
    assert load_exchange(file, [], {"FIRELANE_EXCHANGE__KEEP_ALIVE": ""}).exchange.keep_alive_s is None


@pytest.mark.parametrize("secret", ["12345", "null", "*a", "a: b #c", "[", "{'", "=", "!x y", " a "])
def test_a_secret_is_taken_as_it_stands(secret):
    base = ["exchange.upstream={host: h, in: [a], user: b}"]
    by_option = load_exchange(None, [*base, f"exchange.upstream.password={secret}"])
    by_variable = load_exchange(
        None,
        [],
        {
            "FIRELANE_EXCHANGE__UPSTREAM": base[0].partition("=")[2],
            "FIRELANE_EXCHANGE__UPSTREAM__PASSWORD": secret,
        },
    )
    assert by_option.exchange.upstream.password == by_variable.exchange.upstream.password == secret


def test_other_variables_are_nobodys_business():
    environment = {"FIRELANE_EXCHANGE_PORT": "tcp://10.0.0.1", "FIRELANE_EXCHANGE": "5", "PATH": "/bin", "HOME": ""}
    assert load_exchange(None, [], environment) == load_exchange(None)


def test_the_data_given_are_not_changed():
    same = {"roles": ["x"]}
    data = {"name": "n", "exchange": {"users": {"a": same, "b": same}, "limits": {"queue": 5}}}
    before = copy.deepcopy(data)
    after = with_overrides(data, ["exchange.users.a.roles=[y]", "exchange.limits.queue=6"], {})
    assert data == before
    assert after["exchange"] == {"users": {"a": {"roles": ["y"]}, "b": same}, "limits": {"queue": 6}}


def test_two_users_that_share_an_anchor_are_told_apart(file):
    users = load_exchange(file, ["exchange.users.a.roles=[y]"]).exchange.users
    assert (users["a"].roles, users["b"].roles) == (("y",), ("x",))


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("exchange.keep_aliv=5", "exchange.keep_aliv: there is no such key; did you mean keep_alive?"),
        ("exchange.keep_alive=soon", 'exchange.keep_alive: "soon" is not a duration'),
        ("exchange.limits.queue=0", "exchange.limits.queue: "),
        ("exchange.limits={queue: 0}", "exchange.limits.queue: "),
        ("exchange.upstream.host=h", "exchange.upstream: nothing goes in or out"),
        ("exchange.access.0.who=a", "exchange.access: "),
        ("exchange.keep_alive=[5", "exchange.keep_alive: this value is not YAML; check its quotes and brackets"),
        ("exchange.keep_alive", "there is no = in it; write exchange.KEY=VALUE"),
        ("exchange=5", "exchange: only settings of the exchange can be given here; write exchange.KEY=VALUE"),
        ("topics.a.size=5", "topics.a.size: only settings of the exchange can be given here"),
        ("name=5", "name: only settings of the exchange can be given here"),
        ("=5", "only settings of the exchange can be given here"),
        ("exchange.=5", "exchange.: a part of this key is empty"),
        ("exchange..limits=5", "exchange..limits: a part of this key is empty"),
        ("exchange.name\x1b[2J=5", "exchange.name\\x1b[2J: there is no such key"),
    ],
)
def test_a_bad_override_is_told_with_its_origin(assignment, words):
    assert problem_of(assignment).startswith(f"--set: {words}")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("FIRELANE_EXCHANGE__KEEP_ALIV", "5", "exchange.keep_aliv: there is no such key; did you mean keep_alive?"),
        ("FIRELANE_EXCHANGE__KEEP_ALIVE", "soon", 'exchange.keep_alive: "soon" is not a duration'),
        ("FIRELANE_EXCHANGE__LIMITS__QUEUE", "{", "exchange.limits.queue: this value is not YAML"),
        ("FIRELANE_EXCHANGE__", "5", "exchange.: a part of this key is empty"),
    ],
)
def test_a_bad_variable_is_named(variable, value, words):
    assert problem_of(**{variable: value}).startswith(f"{variable}: {words}")


def test_a_problem_of_the_file_is_the_files_own(file):
    file.write_text(FILE.replace("10 s", "10 parsecs"))
    assert problem_of("exchange.durability=memory", source=file).startswith(f"{file}: exchange.keep_alive: ")


def test_a_key_inside_a_value_that_has_none_is_refused(file):
    message = problem_of("exchange.keep_alive.seconds=5", source=file)
    assert message == "--set: exchange.keep_alive.seconds: keep_alive has no keys inside it; give it whole"


@pytest.mark.parametrize(
    "assignment",
    [
        "exchange.users.bob.password=hunter2",
        "exchange.users.bob=hunter2",
        "exchange.users.bob=*hunter2",
        "exchange.users=[hunter2",
        "exchange.users={bob: {password: *hunter2}}",
        "exchange.tokens.bob=!hunter2 x",
        "exchange.tokens.bob.token=hunter2 hunter2",
        "exchange.upstream=mqtt://hunter2@host",
        "exchange.upstream.password:hunter2",
    ],
)
def test_a_bad_override_never_repeats_a_secret(assignment):
    assert "hunter2" not in problem_of(assignment)
    key, _, value = assignment.partition("=")
    if value:
        variable = "FIRELANE_" + key.upper().replace(".", "__")
        assert "hunter2" not in problem_of(**{variable: value})


def test_defaults_are_for_what_nobody_has_set(file):
    defaults = {"exchange.limits.queue": 77, "exchange.limits.inflight": 78, "exchange.limits.subscriptions": 79}
    limits = load_exchange(file, ["exchange.limits.inflight=8"], {}, defaults).exchange.limits
    assert (limits.queue, limits.inflight, limits.subscriptions) == (5, 8, 79)
    assert load_exchange(None, defaults={"exchange.durability": "memory"}).exchange.durability == "memory"
