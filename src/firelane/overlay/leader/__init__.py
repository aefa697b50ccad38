"""Who leads the routers: which router is to carry which topic."""
