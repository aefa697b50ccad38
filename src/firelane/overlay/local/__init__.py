"""An edge's own exchange, as the overlay sees it."""
