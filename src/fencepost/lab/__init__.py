"""Breaks brokers and pipelines on purpose, and judges the result from outside.

Two tools for users, and the machinery of both:

    chaos/      random histories under random faults, and their checkers: `fencepost chaos`
    scenarios/  failures that are played step by step: `fencepost scenarios`
    kit/        starts, kills and pauses the brokers and processes that the tools, tests and benchmarks break
"""
