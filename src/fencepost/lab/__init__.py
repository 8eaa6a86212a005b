"""Where brokers and pipelines are broken on purpose, and what became of them is judged from outside.

Two tools for users, and the machinery that both stand on:

    chaos/      random histories under random faults, and their checkers: `fencepost chaos`
    scenarios/  every failure as a story that can be played: `fencepost scenarios`
    kit/        starts, kills and pauses the brokers and processes that the tools, tests and benchmarks break
"""
