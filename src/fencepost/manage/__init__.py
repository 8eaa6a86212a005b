"""Topics and consumer groups of any Kafka: looked at and changed. In plain Python, without extras.

`topics` describes topics, `groups` moves and deletes groups. Every change can be shown before it is made.
"""
