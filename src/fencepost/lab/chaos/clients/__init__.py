"""The clients of a run, each in a process of its own: `python -m fencepost.lab.chaos.clients.main`."""
