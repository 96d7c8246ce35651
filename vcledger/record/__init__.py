"""The recorder: a real API server into the ledger, as it happens.

Owns the way from lists and watches to durable events: pure feeds (`scope`, `feed`, `resume`), one for each kind and
namespace, threads that carry out what they ask (`worker`), and the one writer that appends in order (`backlog`,
`writer`). Must not know transports (they stand behind `vcledger.runtime.port`) nor folds, but for the snapshots that it
has made (`upkeep`). Called by `cli.record` and by users' programs.
"""
