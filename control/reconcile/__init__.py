"""The loop that keeps fleets on plan: forecast, solve, guard and decide slowly; repair and move fast."""
