"""The two coordinators, of transactions and of groups: decide, append, apply, reply."""
