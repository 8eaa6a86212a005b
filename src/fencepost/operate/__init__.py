"""Looking at a pipeline and moving it, by what Kafka holds of it: group, ledger, changelogs, transactional id.

Works on any Kafka, without Spark, and with the base install. No module of Spark is imported.

===============  =====================================================================================================
`standing`       how far a pipeline has come: its last batch, its offsets, what the cluster knows of its topics
`activity`       whether it runs, as far as the coordinator tells: a pure judgement
`lag`            the committed records that it has not read, counted or bounded
`steps`          its stateful steps: their changelogs, and how large these are
`next_start`     what a start with a given checkpoint would do, by the sink's own decision
`overview`       all of this, as it is shown
`target`         where a reset goes: earliest, latest, a time, offsets, or after a batch
`rewinding`      what a reset writes to the changelogs: tombstones, or the values of then
`reset`          fence, then move group, ledger and state in one transaction
`delete`         remove what is left of a pipeline
===============  =====================================================================================================
"""
