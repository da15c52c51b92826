"""Engines: what runs the layers of a model on one node, all behind `agents.engines.protocol.StageEngine`."""
