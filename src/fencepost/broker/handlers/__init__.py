"""One file per API, named after it."""
