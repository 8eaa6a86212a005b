"""Every query that people write, against the same query as a batch, while its driver dies.

===========================  ===========================================================================================
`case.py`, `acts.py`         what a case is: sources, a query, a sink, a trigger; and what happens in it
`matrix.py`                  all cases; `queries.py`, `python_state.py`, `sinks.py`, `steps.py`: parts
`play.py`                    plays a case act by act and compares; `runner.py` runs its query once
`given.py`, `inputs.py`      how a query reads its sources, and how they are filled
`deaths.py`                  how a run ends before its time
`outside.py`, `models.py`    what another client sees, and whether that is right
`fuzz.py`                    pipelines at random: `generate.py`, `shrink.py`, and `script.py`, which prints programs
===========================  ===========================================================================================

    make queries                                          all cases; `make test` runs a few of each kind
    make query-fuzz SECONDS=600 SEED=7
    python -m pytest tests/spark/queries --thorough -k "windows and once" --log-cli-level=INFO
    python -m pytest tests/spark/queries --apache-kafka
"""
