"""A scenario of three categories on a thin link, one of them without a name; somebody else is on a wide one."""

from firelane.scenario import from_text

TEXT = """
name: post
priorities: 3
links:
  post: {bandwidth: 1 Mbps, buffer: 200}
  wide: {}
topics:
  t/1: {size: 500 B}
  t/2: {size: 300 B, sizes: fixed}
publishers:
  device: {publishes: {t/1: 100 Hz, t/2: 150 Hz}}
subscribers:
  ann:
    link: post
    subscribes: {t/1: {category: urgent}, t/2: {category: bulk, weight: 2}}
  ben:
    link: post
    subscribes: {t/+: {}}
  cid:
    link: wide
    subscribes: {t/2: {category: bulk, tolerance: 0.5}}
"""
SCENARIO = from_text(TEXT)
