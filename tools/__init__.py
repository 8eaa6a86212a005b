"""Programs that make files of this repository. Nothing here is installed."""
