"""Sites joined over a WAN: what their brokers know of each other."""
