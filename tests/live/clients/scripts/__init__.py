"""The scripts by subject; importing them puts them on the programme."""

from live.clients.scripts import access, delivery, expiry, five, flow, retained, sessions, subscriptions, system, wills

__all__ = ["access", "delivery", "expiry", "five", "flow", "retained", "sessions", "subscriptions", "system", "wills"]
