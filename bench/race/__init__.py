"""A race: systems that do the same work, warmed up alike, timed by one clock, and compared byte by byte.

`input` writes purchases, some of them bad. `expected` says what must come of them, `outputs` reads what came, `compare`
tells them apart. `clock` watches the outputs from outside, `window` makes rates of what it saw. `systems` lists who
runs, `run` lets one of them run.
"""
