"""Foreign clients against the broker: one set of behaviours, and one adapter for each client that must show them."""
