"""API objects as partial structs, quantities, resources, selectors and task statuses.

Owns what a Kubernetes or Volcano object means to a scheduler. Must not know where an object came from.
Called by `volcano.events`, `projections` and `vcledger`.
"""
