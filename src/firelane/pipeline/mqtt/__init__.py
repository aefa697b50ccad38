"""MQTT as a streaming source of Spark: nothing that a broker handed over is lost, nothing is counted twice.

    register(spark)
    messages = spark.readStream.format("mqtt").options(
        host="localhost", port="1883", topic="$firelane/telemetry/deliveries", client_id="watch", folder="/var/watch"
    ).load()                                # topic STRING, payload BINARY, received TIMESTAMP

A message is acknowledged when it is in the log, on disk; the log is cut off behind what all queries have dealt with.
`session` talks to the broker, `collector` brings what it says into the `log`, `seen` knows what is in there already,
`segments` are the log's files and `blocks` what these are made of, `source` shows it all to Spark.
"""
