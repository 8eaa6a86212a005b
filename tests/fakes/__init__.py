"""Replacements for time, disk and threads that do what a test tells them to."""
