"""The transaction coordinator. Start with `states.py`."""
