"""Tests: unit/ mirrors the source, clients/ drives the broker with foreign clients, faults/ breaks it."""
