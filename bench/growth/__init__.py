"""How cost grows with size: one curve for each thing that can become many or large, a table and a plot each.

`__main__` lists the curves. `pipelines` has those of Spark, `records` that of the client alone, `commits` those of a
transaction's end, `producers`, `connections` and `groups` those of the broker. `show` draws them.
"""
