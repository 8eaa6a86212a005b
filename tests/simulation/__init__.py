"""A whole broker in one process, without sockets, threads or real time, driven from a seed.

    python -m tests.simulation --seed 7            play one history and print it
    python -m tests.simulation --histories 2000    look for a seed that breaks something, on all cores

A history is one run: some producers write transactions through a network that delays, loses and repeats their requests;
a reader looks on; the machine is switched off, killed and restarted in between, with a disk that forgets what was not
synced. At the end everything heals, and the invariants in `checks` are asked.

`machine`   the broker, and what is handed in to it: event loop, clock, worker, disk. Ends at any instant
`network`   connections between clients and the machine; the faults of messages
`clients`   how a client asks, and asks again; `writers`, `members` and `reader` are the clients, as coroutines
`checks`    what must be true of every history
`history`   one seed: its faults, its clients, its record

Everything random comes from the seed, in an order that does not depend on memory addresses or string hashes. So the
same seed gives the same history, byte for byte, in any process. New clients and new faults go beside the existing
ones. A change of them changes what a seed means; a bug that was found gets a test of its own.
"""
