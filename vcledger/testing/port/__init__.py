"""The API port's contract by subject.

Owns what each subject claims. Must not know which server is tried. Called by `vcledger.testing.port_contract`, which
puts it together.
"""
