"""Random histories under random faults, and the judgement over them: a checker in Jepsen's manner.

    plan        what the seed decides: clients, workload, the schedule of faults
    run         one run: start, harm, heal, drain, check
    network     the proxy between clients and brokers, which cuts, delays, holds and loses
    nemesis     carries the faults out
    clients/    producers, consume-transform-produce loops and readers, each a process that writes its history
    history     the operations, as lines of JSON
    facts       a history, read: transactions, reads, committed offsets
    checkers/   pure functions from facts to anomalies, one file each
    report      what is told in the end

Nothing here looks into the broker: everything is judged from what clients did, were told and saw.
"""
