"""Replay: a recorded or published trace again, offline, under the recorded or another configuration."""
