"""Two categories on one link, of which the results can be worked out by hand."""

# Each topic is 0.48 of the link: 60 messages of 1000 B a second on 1 Mbit/s.
TEXT = """
name: post
priorities: 3
headroom: 5 %
links:
  post: {bandwidth: 1 Mbps, overhead: 0, pace: 1}
topics:
  a: {size: 1000 B, sizes: fixed}
  b: {size: 1000 B, sizes: fixed}
publishers:
  device: {publishes: {a: 60 Hz, b: 60 Hz}}
subscribers:
  ann: {link: post, subscribes: {a: {category: urgent, weight: 2}}}
  ben: {link: post, subscribes: {b: {category: bulk}}}
categories:
  urgent: {max_delay: 30 ms, max_loss: 0 %}
  bulk: {max_loss: 10 %}
"""
