"""Connections of an edge: to routers, and directly to other edges."""
