"""What clients say and are told, in MQTT and on the topics of the exchange itself: a function per packet or topic."""
