"""The data pipeline, on Spark: positions and telemetry to loads and Metrics, sweeps, and an eye on what is live."""
