"""The page about lanes shows the numbers that were measured."""

import json

from live.lanes.page import NUMBERS, PAGE, page


def test_the_page_is_made_from_the_numbers():
    assert PAGE.read_text() == page(json.loads(NUMBERS.read_text())), "measure again with FIRELANE_WRITE_DOCS=1"


def test_every_run_has_its_delays_from_all_sources():
    for one in json.loads(NUMBERS.read_text())["agreement"].values():
        assert [row["class"] for row in one["classes"]] == list(range(9))
        for row in one["classes"]:
            assert all(row[f"{source}_ms"] > 0 for source in ("predicted", "simulated", "same", "live", "end_to_end"))
