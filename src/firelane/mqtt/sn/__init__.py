"""MQTT-SN 1.2, the MQTT of datagrams, without input or output: messages as plain data, and their bytes."""
