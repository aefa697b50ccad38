"""The web side of the exchange: health, metrics and a REST interface over HTTP."""
