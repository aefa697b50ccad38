"""The page about lanes, made from numbers that tests note when FIRELANE_WRITE_DOCS is set."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from live.lanes.deliveries import Sender
from live.lanes.picture import draw

DOCS = Path(__file__).parents[3] / "docs"
NUMBERS, PAGE, PICTURE = DOCS / "lanes.json", DOCS / "lanes.md", DOCS / "images" / "lanes.png"

OPENING = """\
# Lanes, measured

What the exchange does with real clients on a thin link, beside what was predicted and what perfect links would have
done with the very same publications at the very same moments. Both ends of every message are noted by one process
(`tests/live/lanes/load.py`) with one clock; publications are Poisson and do not wait for the broker. Measured on two
shared cores; the load and the exchange run ahead of other processes where that is allowed.

```
FIRELANE_WRITE_DOCS=1 pytest tests/live/lanes             # measures again and writes this page and lanes.json
FIRELANE_WRITE_DOCS=1 pytest tests/live/lanes -m soak     # the long runs
```

*Delay* is from the arrival at the exchange until the last byte has left the link at its rate. *End to end* is from
just before a publisher sends until its subscriber has read, which on a link that is only paced happens when service
starts: it does not contain the message's own time on the link, and does contain what sockets and processes add.
At a real bottleneck it contains both.
"""


def note(section: str, key: str, numbers: dict[str, Any], sender: Sender | None = None) -> None:
    """Keep the numbers of a measurement, and make the page again; only if that is asked for."""
    if not os.environ.get("FIRELANE_WRITE_DOCS"):
        return
    kept = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    late = {} if sender is None else {"sender_late_p99_ms": round(1e3 * sender.late_p99_s, 3)}
    kept.setdefault(section, {})[key] = {"measured": when, **late, **numbers}
    NUMBERS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(kept))
    if section == "agreement":
        draw(kept[section], PICTURE)


def page(kept: dict[str, Any]) -> str:
    """The page that these numbers make."""
    parts = [OPENING, _agreement(kept.get("agreement", {})), _overload(kept.get("overload", {}))]
    return "".join([*parts, _fairness(kept.get("fairness", {}))])


def _agreement(runs: dict[str, Any]) -> str:
    text = (
        "\n## Predicted, simulated, live\n\n"
        "![Mean delay by class, predicted, simulated, live and end to end](images/lanes.png)\n\n"
        "Nine classes, ten subscribers, four of them for every topic, on one link "
        "of 8 Mbit/s. A run of some seconds differs from its long-run prediction by chance alone, so it is compared "
        "with perfect links on the same arrivals; and its arrivals were chosen so that *those* come close to "
        "prediction. "
        "Mean delays in milliseconds.\n"
    )
    for key, one in sorted(runs.items()):
        text += f"\n{key}, measured {one['measured']}; the sender was late by {one['sender_late_p99_ms']} ms (p99)\n\n"
        head = ("class", "predicted", "simulated", "same arrivals", "**live**", "end to end", "success", "messages")
        names = ("predicted_ms", "simulated_ms", "same_ms", "live_ms", "end_to_end_ms")
        text += _table(head, ([row["class"], *(f"{row[name]:.2f}" for name in names), f"{row['success']:.4f}",
                               row["due"]] for row in one["classes"]))  # fmt: skip
    return text


def _overload(runs: dict[str, Any]) -> str:
    text = (
        "\n## Overload\n\nThe scenario `planemqx`: 30 topics, 16 subscribers, 80 subscriptions, classes and drop rates "
        "as in the paper. Delays of the best class (real-time) and what became of the others. On links that are only "
        "paced they are as plans reckon them, at the bottleneck (tbf, 10 Mbit/s, of which the exchange knows only "
        "`bandwidth: 10 Mbps`) end to end.\n\n"
    )
    head = ("run", "load", "mean ms", "p99 ms", "perfect: mean", "p99", "success by class", "measured")
    return text + _table(head, ([key, *(one[name] for name in ("load", "mean_ms", "p99_ms", "same_mean_ms",
                         "same_p99_ms")), " ".join(f"{s:.3f}" for s in one["success"]), one["measured"]]
                         for key, one in sorted(runs.items())))  # fmt: skip


def _fairness(runs: dict[str, Any]) -> str:
    rows = ([key, one["result"], one["measured"]] for key, one in sorted(runs.items()))
    return "\n## Fairness\n\n" + _table(("what", "result", "measured"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |\n" for row in lines)
