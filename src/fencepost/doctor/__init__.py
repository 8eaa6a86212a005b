"""Is this machine, and is this cluster, fit for exactly-once? Findings, each with the command that mends it.

`machine` looks at Python, Java and Spark, `cluster` asks a cluster, and `judging` makes findings of its answers.
"""
