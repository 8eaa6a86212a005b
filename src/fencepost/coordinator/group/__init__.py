"""The group coordinator: the classic membership protocol and committed offsets."""
