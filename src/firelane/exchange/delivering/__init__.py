"""The one way from a publication to the outboxes of all who want it."""
