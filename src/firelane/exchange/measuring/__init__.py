"""What came of it: live Metrics, traffic by topic, and what a planner may know."""
