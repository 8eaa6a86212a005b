"""Bytes in, values out. No sockets, files or clocks, so bytes are enough to test everything here."""
