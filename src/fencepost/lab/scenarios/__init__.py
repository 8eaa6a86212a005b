"""Every failure that must do no harm, played and told: `fencepost scenarios`.

`catalogue` lists the scenarios and `play` runs them. A scenario is a function that gets a `stage.Stage`: it does harm
there and checks, from outside, that none was done. `story` is what is told; how it looks is the command's affair.
"""
