"""The exchange: an MQTT 3.1.1 and 5 broker that sends what matters first."""
