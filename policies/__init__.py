"""Policies: what to prefer, as allocation baselines, guardrails, forecasts, routing and admission."""
