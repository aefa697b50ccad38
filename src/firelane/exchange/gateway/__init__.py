"""MQTT-SN 1.2 for clients on UDP: each address is a connection of the broker, and what it says is translated."""
