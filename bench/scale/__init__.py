"""What a pipeline needs on a cluster: a model with few coefficients, fitted to what `bench.growth` measured.

`observations` reads the curves, `model` fits and predicts, `__main__` is the command, which also fills docs/scale.md.
"""
