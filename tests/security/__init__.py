"""Secured connections: the client and the broker against each other, against other clients, and against bad input."""
