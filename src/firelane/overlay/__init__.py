"""Sites joined over a WAN: edge brokers, routing brokers, coordination."""
