"""Plans, needs, links, predictions and measurements over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from itertools import count

import aiomqtt
import httpx
import pytest
from web_side import HOST, bearer, tokens

from fake_exchange import FakeExchange, observed, seen, topic, treated, want
from firelane.control import Control, controlling, decide, learnt
from firelane.exchange.measuring.observed import SeenBandwidth
from firelane.exchange.run import running
from firelane.predict import predict
from firelane.scenario import from_data
from firelane.scenario.model import Link, Need, Scenario
from firelane.scenario.plan import plan_from_data
from firelane.web.app import make_app
from firelane.web.server import serving

SCENE = seen(
    [topic("a", 20.0), topic("b", 5.0), topic("c/1", 1.0)],
    [
        want("s", "a", need=Need(weight=2.0, max_delay_s=0.5)),
        want("s", "b", qos=1),
        want("t", "c/#", best_class=3),
        want("t", "a"),
        want("u", "a", link="own"),
    ],
    own=Link(bandwidth_bps=16_000.0, overhead_bytes=0.0, pace=1.0, each=True),
)
ROLES = {"anonymous": "never", "tokens": tokens(read="read", operate="operate")}


class Site:
    """An exchange that is not real, its control loop that does not run, and questions to them."""

    def __init__(self, scene=SCENE, scenario=None, **settings):
        self.exchange = FakeExchange(scene, **settings)
        self.control = Control(self.exchange, scenario)
        self.app = make_app(self.exchange, self.control)

    def ask(self, method, path, *, status=200, **more):
        answer = asyncio.run(self.aask(method, path, **more))
        assert answer.status_code == status, answer.text
        if status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json()
            assert set(problem) == {"title", "status", "detail"}
            assert "\n" not in problem["detail"]
            return problem["detail"]
        return answer.json() if answer.content else None

    async def aask(self, method, path, **more):
        transport = httpx.ASGITransport(self.app, client=("127.0.0.1", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, f"/api/v1/{path}", **more)


@pytest.fixture
def site():
    return Site()


# ------------------------------------------------------------------------------------------------ the plan


def test_without_a_plan_an_empty_one_of_version_0_is_shown(site):
    plan = site.ask("GET", "plan")
    assert (plan["version"], plan["flows"], plan["subscriptions"]) == (0, [], [])
    assert "no plan" in plan["why"][0]


def test_a_plan_is_made_for_what_is_live_applied_and_shown(site):
    answer = site.ask("POST", "plan")
    assert answer["applied"] is True
    assert site.exchange.plan.version == 1
    assert answer["plan"] == site.ask("GET", "plan") == site.exchange.plan.to_data()
    assert treated(site.exchange.plan) == treated(decide(SCENE).plan)
    assert answer["plan"]["promised"]["loads"]["thin"] == pytest.approx(0.9)
    assert answer["plan"]["why"]
    assert site.ask("POST", "plan")["plan"]["version"] == 2


def test_a_dry_run_shows_what_would_change_and_changes_nothing(site):
    answer = site.ask("POST", "plan?dry_run=true")
    assert answer["applied"] is False
    assert site.exchange.plan is None
    assert answer["plan"]["version"] == 1
    expected = predict(learnt(SCENE), decide(SCENE).plan)
    assert answer["predicted"]["utility"]["rate"] == pytest.approx(expected.utility()["rate"])
    assert answer["predicted"]["links"]["thin"]["load"] == pytest.approx(0.9)
    assert not answer["predicted_before"]["links"]["thin"]["stable"]
    assert answer["predicted_before"]["utility"]["rate"] < answer["predicted"]["utility"]["rate"]
    assert answer["changed"] == len(answer["changes"]) > 0
    rows = {(one["subscriber"], one["filter"]): one for one in answer["changes"]}
    assert rows["s", "a"]["priority_before"] == 8
    assert rows["s", "a"]["drop_rate_before"] == 0
    assert (rows["s", "a"]["priority"], rows["s", "a"]["drop_rate"]) == treated(decide(SCENE).plan)["s", "a"]


def test_a_plan_like_the_one_in_force_changes_nothing(site):
    site.ask("POST", "plan")
    answer = site.ask("POST", "plan?dry_run=1")
    assert (answer["changed"], answer["changes"]) == (0, [])
    assert answer["predicted"] == answer["predicted_before"]


def test_of_many_changes_the_largest_are_shown():
    wants = [want(f"s{n}", "a", need=Need(weight=float(n + 1))) for n in range(300)]
    answer = Site(seen([topic("a", 20.0)], wants)).ask("POST", "plan?dry_run=true")
    assert answer["changed"] > len(answer["changes"]) == 100
    drops = [abs(one["drop_rate"] - one["drop_rate_before"]) for one in answer["changes"]]
    assert drops == sorted(drops, reverse=True)


def test_a_plan_that_is_given_is_applied_instead(site):
    plan = site.ask("POST", "plan?dry_run=true")["plan"]
    for flow in plan["flows"]:
        flow["drop_rate"] = 0.25
    shown = site.ask("POST", "plan?dry_run=true", json=plan)
    assert site.exchange.plan is None
    assert shown["plan"]["flows"] == plan["flows"]
    assert {one["drop_rate"] for one in shown["changes"]} == {0.25}
    site.ask("POST", "plan", json=plan)
    assert set(site.exchange.plan.flow_drop_rate.tolist()) == {0.25}
    assert "not newer" in site.ask("POST", "plan", json=plan, status=409)
    assert "not newer" in site.ask("POST", "plan?dry_run=true", json=plan, status=409)
    del plan["version"]
    site.ask("POST", "plan", json=plan)
    assert site.exchange.plan.version == 2
    assert plan_from_data(site.ask("GET", "plan")).version == 2


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"format": 2}, "format"),
        ({"flows": "none"}, "flows"),
        ({"subscriptions": [{"subscriber": "s", "filter": "a", "flow": 99}]}, "no flow 99"),
        ({"version": "new"}, "version"),
        ({"version": 2**60}, "newer plans"),
    ],
)
def test_a_plan_that_is_none_is_refused(site, broken, named):
    plan = site.ask("POST", "plan?dry_run=true")["plan"] | broken
    assert named in site.ask("POST", "plan", json=plan, status=422)
    assert site.exchange.plan is None


def test_a_plan_with_numbers_that_json_has_not_is_refused(site):
    plan = site.ask("POST", "plan?dry_run=true")["plan"] | {"promised": {"utility": float("nan")}}
    headers = {"Content-Type": "application/json"}
    assert "NaN" in site.ask("POST", "plan", content=json.dumps(plan), headers=headers, status=422)


def test_a_plan_with_classes_that_there_are_not_is_refused(site):
    plan = site.ask("POST", "plan?dry_run=true")["plan"]
    plan["flows"][0]["priority"] = 12
    assert "priority 12" in site.ask("POST", "plan", json=plan, status=409)


def test_a_body_that_is_no_plan_and_no_object_is_refused(site):
    site.ask("POST", "plan", content="[1]", status=422)
    site.ask("POST", "plan", content="{", status=422)
    site.ask("POST", "plan?dryrun=true", status=422)
    site.ask("POST", "plan?dry_run=perhaps", status=422)


def test_where_nothing_is_published_there_is_nothing_to_plan():
    site = Site(seen([], [want("s", "a")]))
    assert "nothing to" in site.ask("POST", "plan", status=409)
    assert "nothing to" in site.ask("POST", "plan?dry_run=true", status=409)


def test_clients_that_are_one_subscriber_are_shown_as_one():
    wants = [want("crew", "a", link="own"), want("crew", "a", link="own"), want("crew", "a", link="own")]
    site = Site(seen([topic("a", 20.0)], wants, own=Link(bandwidth_bps=8000.0, each=True)))
    text = json.dumps([site.ask("POST", "plan"), site.ask("POST", "predict"), site.ask("GET", "links")])
    assert "\\u0000" not in text
    answer = site.ask("POST", "plan?dry_run=true")
    assert answer["changed"] == 0
    assert answer["predicted"] == answer["predicted_before"]
    assert len(answer["plan"]["subscriptions"]) == 1
    rows = site.ask("POST", "predict")["subscriptions"]
    assert [row["drop_rate"] for row in rows] == [site.exchange.plan.flow_drop_rate[0]] * 3
    assert rows[0]["drop_rate"] > 0.5


def test_a_plan_of_classes_that_there_no_longer_are_can_be_replaced(site):
    site.ask("POST", "plan")
    site.control.reload(Scenario(name="fewer", priorities=2))
    assert site.ask("POST", "plan?dry_run=true")["changed"] > 0
    site.ask("POST", "predict")
    site.ask("POST", "plan")
    assert site.exchange.plan.flow_priority.max() < 2


# ------------------------------------------------------------------------------------------------ decisions


def test_decisions_are_listed_the_newest_first_with_their_causes(site):
    assert site.ask("GET", "decisions") == {"items": [], "next_offset": None}
    site.ask("POST", "plan")
    site.ask("POST", "plan")
    plan = site.ask("GET", "plan") | {"version": 1}
    site.ask("POST", "plan", json=plan, status=409)
    found = site.ask("GET", "decisions")["items"]
    assert [(one["kind"], one["verdict"], one["version_before"], one["version"]) for one in found] == [
        ("operator", "failed", 2, 2), ("operator", "pending", 1, 2), ("operator", "replaced", 0, 1)
    ]  # fmt: skip
    assert "not newer" in found[0]["why"][0]
    first = found[2]
    assert first["cause"] == "somebody asked for a plan"
    assert (first["subscriptions"], first["topics"], first["rate_hz"]) == (5, 3, 26.0)
    assert first["bandwidths_bps"] == {"thin": 8000.0, "own": 16_000.0}
    assert set(first["predicted"]) == {"utility_rate", "missed", "delay_mean_s", "loss"}
    assert first["predicted"]["utility_rate"] > first["predicted_before"]["utility_rate"]
    assert first["measured"] is None


def test_decisions_are_narrowed_and_paged(site):
    for _ in range(3):
        site.ask("POST", "plan")
    page = site.ask("GET", "decisions?limit=2")
    assert (len(page["items"]), page["next_offset"]) == (2, 2)
    assert len(site.ask("GET", "decisions?kind=operator&offset=2")["items"]) == 1
    assert site.ask("GET", "decisions?kind=load")["items"] == []
    since = page["items"][0]["time"]
    assert len(site.ask("GET", "decisions", params={"since": since})["items"]) == 1
    assert site.ask("GET", "decisions?since=2999-01-01T00:00:00")["items"] == []
    site.ask("GET", "decisions?kind=whim", status=422)
    site.ask("GET", "decisions?since=yesterday", status=422)
    site.ask("GET", "decisions?verdict=kept", status=422)


# ------------------------------------------------------------------------------------------------ needs


def test_needs_are_listed_page_by_page(site):
    first = site.ask("GET", "needs?limit=2")
    assert first["next_offset"] == 2
    assert first["items"][0] == {
        "subscriber": "s", "filter": "a", "best_class": 0, "qos": 0, "link": "thin",
        "need": {
            "utility": "log", "weight": 2.0, "knee": None, "points": None, "max_delay": 0.5, "max_loss": None,
            "min_share": 0.0, "category": None, "tolerance": None, "keep": "all",
        },
    }  # fmt: skip
    last = site.ask("GET", "needs?limit=2&offset=4")
    assert (len(last["items"]), last["next_offset"]) == (1, None)
    found = site.ask("GET", "needs", params={"subscriber": "t", "filter": "c/#"})["items"]
    assert [(one["subscriber"], one["best_class"]) for one in found] == [("t", 3)]
    assert len(site.ask("GET", "needs?filter=a")["items"]) == 3
    assert site.ask("GET", "needs?subscriber=nobody")["items"] == []
    assert "client_id" in site.ask("GET", "needs?client_id=s", status=422)


def test_a_need_is_set_and_taken_back(site):
    need = {"weight": 7, "utility": "saturating", "knee": "30 %", "max_delay": "200 ms"}
    assert site.ask("PUT", "needs", json={"subscriber": "s", "filter": "a", "need": need}, status=204) is None
    assert site.ask("PUT", "needs", json={"subscriber": "t", "filter": "c/#", "need": None}, status=204) is None
    assert site.exchange.overrides == [
        ("s", "a", Need(weight=7.0, utility="saturating", knee=0.3, max_delay_s=0.2)),
        ("t", "c/#", None),
    ]


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"subscriber": "s", "filter": "x", "need": None}, 404, "'x'"),
        ({"subscriber": "x", "filter": "a", "need": {}}, 404, "'x'"),
        ({"subscriber": "s", "filter": "a"}, 422, "need"),
        ({"subscriber": "s", "filter": "a", "need": {"weigth": 1}}, 422, "weigth"),
        ({"subscriber": "s", "filter": "a", "need": {"weight": -1}}, 422, "weight"),
        ({"subscriber": "s", "filter": "a", "need": {"utility": "piecewise"}}, 422, "points"),
        ({"subscriber": "s", "filter": "a", "need": {}, "for": "ever"}, 422, "for"),
        ([], 422, "body"),
    ],
)
def test_a_need_that_cannot_be_is_refused(site, body, status, named):
    assert named in site.ask("PUT", "needs", json=body, status=status)
    assert site.exchange.overrides == []


def test_the_control_loop_looks_at_a_new_need_at_once(monkeypatch):
    async def main():
        site = Site(scenario=Scenario(name="live"))
        loop = asyncio.create_task(site.control.run())
        while not site.exchange.applied:
            await asyncio.sleep(0.01)
        monkeypatch.setattr("firelane.control.loop.LOOK_EVERY_S", 3600.0)
        await asyncio.sleep(1.1)
        answer = await site.aask("PUT", "needs", json={"subscriber": "t", "filter": "a", "need": {"weight": 99}})
        assert answer.status_code == 204
        while len(site.exchange.applied) < 2:
            await asyncio.sleep(0.01)
        loop.cancel()

    asyncio.run(asyncio.wait_for(main(), 60))


# ------------------------------------------------------------------------------------------------ predict


def utility(answer):
    return answer["utility"]["rate"]


def test_without_a_body_what_is_live_is_predicted_under_the_plan_in_force(site):
    plain = site.ask("POST", "predict")
    assert (plain["source"], plain["links"]["thin"]["stable"]) == ("predicted", False)
    site.ask("POST", "plan")
    planned = site.ask("POST", "predict")
    expected = predict(learnt(SCENE), site.exchange.plan)
    assert utility(planned) == pytest.approx(expected.utility()["rate"])
    assert [row["success"] for row in planned["subscriptions"]] == pytest.approx(expected.column("success"))
    assert {row["plan_version"] for row in planned["subscriptions"]} == {1}


def test_a_part_that_differs_is_laid_over_what_is_live(site):
    before = site.ask("POST", "predict")
    faster = site.ask("POST", "predict", json={"links": {"thin": {"bandwidth": "80 kbps"}}})
    assert faster["links"]["thin"]["load"] == pytest.approx(before["links"]["thin"]["load"] / 10)
    busier = site.ask("POST", "predict", json={"publishers": {"live": {"publishes": {"b": "10 Hz"}}}})
    assert busier["links"]["thin"]["load"] == pytest.approx(before["links"]["thin"]["load"] + 0.5)
    larger = site.ask("POST", "predict", json={"topics": {"b": {"size": "300 B", "sizes": "fixed"}}})
    assert larger["links"]["thin"]["load"] == pytest.approx(before["links"]["thin"]["load"] + 1.0)
    moved = site.ask("POST", "predict", json={"subscribers": {"t": {"link": "default"}}})
    assert moved["links"]["thin"]["load"] == pytest.approx(2.5)
    gone = site.ask("POST", "predict", json={"subscribers": {"t": None}})
    assert gone["links"]["thin"]["load"] == pytest.approx(2.5)
    silent = site.ask("POST", "predict", json={"topics": {"a": None}})
    assert silent["links"]["thin"]["load"] == pytest.approx(0.6)
    more = {"subscribers": {"new": {"link": "thin", "subscribes": {"c/+": None}}, "s": {"subscribes": {"c/1": {}}}}}
    assert site.ask("POST", "predict", json=more)["links"]["thin"]["load"] == pytest.approx(4.6 + 0.2)
    assert site.ask("POST", "predict") == before


def test_all_clients_of_a_subscriber_are_moved_together():
    site = Site(seen([topic("a", 5.0)], [want("crew", "a"), want("crew", "a")]))
    moved = site.ask("POST", "predict", json={"subscribers": {"crew": {"link": "default"}}})
    assert "thin" not in moved["links"]


@pytest.mark.parametrize(
    ("partial", "named"),
    [
        ({"exchange": {}}, "exchange"),
        ({"link": {}}, "link"),
        ({"links": []}, "links"),
        ({"links": {"thin": {"bandwith": 1}}}, "bandwith"),
        ({"links": {"thin": {"bandwidth": "fast"}}}, "links.thin.bandwidth"),
        ({"links": {"thin": None}}, "thin"),
        ({"topics": {"a/#": {"size": 1}}}, "topics.a/#"),
        ({"topics": {"a": {}}}, "size"),
        ({"topics": {"a": None, "b": None, "c/1": None}}, "topics"),
        ({"publishers": {"p": {"publishes": {"z": 1}}}}, "publishers.p.z"),
        ({"subscribers": {"s": {"link": "nowhere"}}}, "nowhere"),
        ({"subscribers": {"s": {"subscribes": {"a/#/b": None}}}}, "a/#/b"),
        ({"subscribers": {"s": {"subscribes": {"a": {"weight": -1}}}}}, "weight"),
        ({"priorities": 0}, "priorities"),
        ({"headroom": 1}, "headroom"),
        ({"flows": 0}, "flows"),
    ],
)
def test_a_part_that_cannot_be_is_refused(site, partial, named):
    assert named in site.ask("POST", "predict", json=partial, status=422)


def test_more_than_memory_has_room_for_is_not_predicted(site, monkeypatch):
    monkeypatch.setattr("firelane.control.network.MOST_CLAIMS", 20)
    many = {"subscribers": {f"s{n}": {"subscribes": {"#": None}} for n in range(8)}}
    assert "pairs" in site.ask("POST", "predict", json=many, status=422)


def test_what_is_asked_for_is_calculated_beside_the_event_loop_and_one_at_a_time(site, monkeypatch):
    busy, threads = threading.Lock(), set()

    def slowly(network, plan):
        assert busy.acquire(blocking=False)
        threads.add(threading.current_thread())
        threading.Event().wait(0.02)
        busy.release()
        return predict(network, plan)

    async def main():
        return await asyncio.gather(*(site.aask("POST", "predict") for _ in range(4)))

    monkeypatch.setattr("firelane.web.planning.foreseen", slowly)
    assert {answer.status_code for answer in asyncio.run(main())} == {200}
    assert threading.main_thread() not in threads


# ------------------------------------------------------------------------------------------------ metrics, links


def measured(site):
    scenario = from_data(
        {
            "name": "m",
            "links": {"thin": {"bandwidth": "80 kbps"}, "own": {"bandwidth": "80 kbps", "each": True}},
            "topics": {"a": {"size": "100 B"}, "b": {"size": "100 B"}},
            "publishers": {"p": {"publishes": {"a": 5, "b": 9}}},
            "subscribers": {
                "s": {"link": "thin", "subscribes": {"a": None, "b": None}},
                "t": {"link": "own", "subscribes": {"a": None}},
                "u": {"link": "own", "subscribes": {"b": None}},
            },
        }
    )
    site.exchange.measured = replace(predict(scenario), source="live")
    site.exchange.seen = observed(scenario)
    return site.exchange.measured


def test_before_anything_is_measured_there_is_nothing(site):
    answer = site.ask("GET", "metrics")
    assert (answer["source"], answer["links"], answer["classes"]) == ("live", {}, [])
    assert (answer["subscriptions"], answer["next_offset"]) == ([], None)


def test_what_is_measured_is_shown_page_by_page(site):
    metrics = measured(site)
    answer = site.ask("GET", "metrics?limit=3")
    assert answer["source"] == "live"
    assert answer["utility"] == metrics.to_data()["utility"]
    assert answer["classes"] == metrics.to_data()["classes"]
    assert [(one["subscriber"], one["filter"]) for one in answer["subscriptions"]] == [
        ("s", "a"),
        ("s", "b"),
        ("t", "a"),
    ]
    assert answer["next_offset"] == 3
    last = site.ask("GET", "metrics?limit=3&offset=3")
    assert [one["subscriber"] for one in last["subscriptions"]] == ["u"]
    assert last["next_offset"] is None
    found = site.ask("GET", "metrics", params={"subscriber": "s", "filter": "b"})["subscriptions"]
    assert [one["offered_hz"] for one in found] == [9.0]
    assert site.ask("GET", "metrics?limit=0", status=422)


def test_links_are_shown_with_who_is_on_them_and_their_loads(site):
    metrics = measured(site)
    site.ask("POST", "plan")
    thin, own = site.ask("GET", "links")["items"]
    assert thin == {
        "name": "thin", "bandwidth_bps": 80_000.0, "known_bps": 80_000.0, "known_by": "configured",
        "paced_bps": pytest.approx(77_600.0), "buffer_messages": None,
        "propagation_s": 0.0, "loss": 0.0, "each": False, "subscribers": 1, "subscriptions": 2,
        "load": pytest.approx(metrics.links["thin"].load), "planned_load": pytest.approx(metrics.links["thin"].load),
    }  # fmt: skip
    assert (own["each"], own["subscribers"], own["subscriptions"]) == (True, 2, 2)
    assert own["load"] == own["planned_load"] == pytest.approx(metrics.links["own:u"].load)
    assert site.ask("GET", "links?limit=1")["next_offset"] == 1


def test_a_link_that_carries_less_is_shown_with_what_is_configured_and_what_is_known():
    narrow = SeenBandwidth(configured_bps=8000.0, known_bps=3000.0, known_by="acknowledged")
    (link,) = Site(replace(seen([], [], kbps=4), bandwidths={"thin": narrow})).ask("GET", "links")["items"]
    assert (link["bandwidth_bps"], link["known_bps"], link["known_by"]) == (8000.0, 3000.0, "acknowledged")
    assert link["paced_bps"] == 3000.0


def test_a_link_without_a_plan_or_measurements_has_no_loads():
    (link,) = Site(seen([], [], kbps=None)).ask("GET", "links")["items"]
    assert (
        link["bandwidth_bps"] is link["known_bps"] is link["paced_bps"] is link["load"] is link["planned_load"] is None
    )


@pytest.mark.parametrize("loads", [None, [], {"thin": "much"}, {"thin": None}])
def test_a_plan_that_promises_nothing_sensible_does_no_harm(site, loads):
    plan = site.ask("POST", "plan?dry_run=true")["plan"] | {"promised": {"loads": loads}}
    site.ask("POST", "plan", json=plan)
    assert site.ask("GET", "links")["items"][0]["planned_load"] is None


# ------------------------------------------------------------------------------------------------ who may


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "plan", "read"),
        ("GET", "needs", "read"),
        ("GET", "metrics", "read"),
        ("GET", "links", "read"),
        ("POST", "predict", "read"),
        ("POST", "plan?dry_run=true", "read"),
        ("POST", "plan", "operate"),
        ("PUT", "needs", "operate"),
    ],
)
def test_looking_needs_the_role_read_and_changing_the_role_operate(method, path, role):
    site = Site(**ROLES)
    body = {"json": {"subscriber": "s", "filter": "a", "need": None}} if path == "needs" and method == "PUT" else {}
    done = 204 if method == "PUT" else 200
    site.ask(method, path, status=401, **body)
    site.ask(method, path, headers=bearer("read"), status=done if role == "read" else 403, **body)
    assert site.exchange.applied == site.exchange.overrides == []
    site.ask(method, path, headers=bearer("operate"), status=done, **body)


# ------------------------------------------------------------------------------------------------ all of it, live


def test_a_real_exchange_is_planned_for_as_its_traffic_asks(tmp_path):
    scenario = from_data(
        {
            "name": "post",
            "links": {"radio": {"bandwidth": "200 kbps"}},
            "topics": {"bulk": {"size": "100 B"}},
            "subscribers": {"post": {"link": "radio", "subscribes": {"bulk": None}}},
            "exchange": {"phases": {"all hands": [{"filter": "bulk", "need": {"weight": 3, "min_share": "1 %"}}]}},
        }
    )
    lines = []

    async def main():
        async with (
            running(scenario, host=HOST, mqtt_port=0, data_dir=tmp_path, tell=lines.append) as exchange,
            controlling(exchange, scenario, tell=lines.append) as control,
            serving(make_app(exchange, control), HOST, 0) as url,
            httpx.AsyncClient(base_url=f"{url}/api/v1/", timeout=30) as http,
            aiomqtt.Client(HOST, int(exchange.addresses["mqtt"].rpartition(":")[2]), identifier="post") as post,
            aiomqtt.Client(HOST, int(exchange.addresses["mqtt"].rpartition(":")[2]), identifier="sensor") as sensor,
        ):
            await post.subscribe("bulk")
            await post.subscribe("alarms/#")
            publishing = asyncio.create_task(publish(sensor))

            async def plan(condition):
                while not condition(found := treated(plan_from_data((await http.get("plan")).json()))):
                    await asyncio.sleep(0.05)
                return found

            overload = await plan(lambda found: found.get(("post", "bulk"), (0, 0.0))[1] > 0.3)
            assert overload["post", "alarms/#"] == (0, 0.0)
            assert (await http.get("links")).json()["items"][0]["planned_load"] == pytest.approx(0.9)
            need = {"subscriber": "post", "filter": "bulk", "need": {"min_share": 1}}
            assert (await http.put("needs", json=need)).status_code == 204
            await plan(lambda found: "least shares do not fit on radio" in "".join(lines))
            assert (await http.put("needs", json=need | {"need": {"weight": 5}})).status_code == 204
            await plan(lambda found: exchange.plan.version > 2)
            assert (await http.put("needs", json=need | {"need": None})).status_code == 204
            await plan(lambda found: exchange.plan.version > 3)
            assert (await http.get("phase")).json() == {"phase": None, "phases": ["all hands"]}
            assert (await http.post("phase", json={"phase": "all hands"})).json()["phase"] == "all hands"
            bulk = {"subscriber": "post", "filter": "bulk"}
            (granted,) = (await http.get("needs", params=bulk)).json()["items"]
            assert (granted["need"]["weight"], granted["need"]["min_share"]) == (3, 0.01)
            await plan(lambda found: exchange.plan.version > 4)
            refused = await http.post("phase", json={"phase": "party"})
            assert (refused.status_code, "all hands" in refused.text) == (422, True)
            what_if = {"links": {"radio": {"bandwidth": "20 Mbps"}}}
            assert (await http.post("predict", json=what_if)).json()["links"]["radio"]["load"] < 0.1
            rows = (await http.get("metrics")).json()["subscriptions"]
            assert {row["filter"] for row in rows} == {"bulk", "alarms/#"}
            publishing.cancel()

    async def publish(sensor):
        """About twice of what the link can carry."""
        for number in count():
            await sensor.publish("bulk", bytes(100))
            if number % 100 == 0:
                await sensor.publish("alarms/hall", b"!")
            await asyncio.sleep(0.003)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert not any("no new plan" in line for line in lines)
