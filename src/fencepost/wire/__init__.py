"""Bytes in, values out. No sockets, no files, no clocks: everything here can be tested with bytes alone."""
