"""The job `watch`: an eye on live telemetry, with Structured Streaming.

    watch = Watch(source=Address.parse("mqtt://localhost"), output=Path("out"))
    with watching(spark, watch, complain=print) as running:
        ...                                 # running.check() now and then: it raises what ended it, if anything did

Two queries read the same records. `tables` waits until a window is complete, that is for late records, and writes its
Metrics and loads, once; `alerts` looks at short windows while they are open. What they need to go on after a crash is
in `OUTPUT/.watch`: Spark's checkpoints, the log of messages, and alerts that are not told yet.

`arriving` reads and judges records, `queries` says what is computed of them and done with the outcome, `batches` writes
tables that grow, in the folder that `output` looks after, `alerts` and `drift` find what is wrong, `telling` tells it,
`watching` starts and ends it all, `run` shows it to people.
"""
