"""vLLM behind the protocol of our schedulers: a whole model on one node, in the environment that vLLM needs."""
