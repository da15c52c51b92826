"""What to prefer: allocation baselines, guardrails and, later, forecasting, routing and admission."""
