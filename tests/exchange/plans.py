"""Plans made by hand."""

import numpy as np

from firelane.scenario.plan import Plan


def a_plan(treatments, version=1):
    """{(subscriber, filter): (class, drop rate)} as a Plan."""
    count = len(treatments)
    return Plan(
        version=version,
        flow_id=np.arange(count),
        flow_subscriber=[one for one, _ in treatments],
        flow_priority=np.array([klass for klass, _ in treatments.values()], np.int64),
        flow_drop_rate=np.array([rate for _, rate in treatments.values()], float),
        subscriber=[one for one, _ in treatments],
        filter=[topic_filter for _, topic_filter in treatments],
        subscription_flow=np.arange(count),
        delta=[None] * count,
    )
