"""Fuzz targets: every decoder that takes bytes from outside."""
