"""Random histories under random faults, and checkers for them, as Jepsen does it.

    plan        what the seed decides: clients, workload, the schedule of faults
    run         one run: start, harm, heal, drain, check
    network     the proxy between clients and brokers: cuts, delays, holds back and loses
    passage     TLS on both sides of that proxy
    nemesis     carries out the faults
    clients/    producers, consume-transform-produce loops and readers, each a process that writes its history
    history     the operations, as lines of JSON
    facts       a history, read: transactions, reads, committed offsets
    checkers/   pure functions from facts to anomalies, one file each
    report      the result

Nothing here looks into the broker. The verdict comes from what clients did, were told and saw.
"""
