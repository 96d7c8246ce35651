"""The commands, one module each: options in, lines or JSON out.

Owns what a person types and sees. Must not hold logic: that is `vcledger`'s, which never imports this. Called by the
console scripts `vcledger` and `kubectl-vcledger`.
"""
