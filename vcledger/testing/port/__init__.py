"""The API port's contract by subject; `vcledger.testing.port_contract` puts it together."""
