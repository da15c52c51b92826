"""How often in a row what executes a run was lost, and when that is enough."""

from dataclasses import dataclass

FIRST_PAUSE_S = 0.1


@dataclass(slots=True)
class Losses:
    """A process that is killed from outside, and an orchestrator that is lost, are no fault of the run: they leave the
    restarts of code that ends its own process alone, and have a bound of their own, as the run may be what kills."""

    kills: int
    """Times that it was killed or its orchestrator was lost since something came of the run last."""
    outcomes: int
    """Outcomes that the run had on record then."""
    crashes: int = 0
    """Times that its code ended its process meanwhile."""
    last: str = "its orchestrator was lost"
    _here: int = 0
    """Kills since this orchestrator has the run."""

    def add(self, outcomes: int, how: str, *, was_killed: bool) -> None:
        """Count a process that is gone. `outcomes`: that its run has on record now."""
        if outcomes != self.outcomes:
            self.kills = self.crashes = self._here = 0
        self.outcomes, self.last = outcomes, how
        self.crashes += not was_killed
        self.kills += was_killed
        self._here += was_killed

    def are_enough(self, most_crashes: int, most_kills: int) -> str:
        """Return why the run is not executed again; empty: it is."""
        if self.crashes > most_crashes:
            return f"its code ended its process {self.crashes} times, and nothing came of it meanwhile: {self.last}"
        if self.kills > most_kills:
            return (
                f"was killed, or lost its orchestrator, {self.kills} times, and nothing came of it meanwhile: "
                f"{self.last}; look what ends processes on the machines of its orchestrators, then resume it"
            )
        return ""

    def pause_s(self, most_s: float) -> float:
        """Return the time to wait before it is executed again: none after the first kill, then ever longer, since what
        kills may go on for a while."""
        return 0.0 if self._here < 2 else min(most_s, FIRST_PAUSE_S * 2.0 ** min(self._here - 2, 60))
