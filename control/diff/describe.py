"""Moves in words, a line each."""

from control.diff.moves import Drain, Launch, MoveSet, Release, Wait


def describe(moves: MoveSet) -> tuple[str, ...]:
    return (
        *(_launch(launch) for launch in moves.launch),
        *(_drain(drain) for drain in moves.drain),
        *(_release(release) for release in moves.release),
        *(_wait(wait) for wait in moves.wait),
    )


def _launch(launch: Launch) -> str:
    target = launch.target
    where = f"{target.template_id[:8]} in {target.zone}, {target.market}"
    return f"launch {launch.id}, {where}, {launch.usd_per_hour:+.2f} $/h: {launch.reason}"


def _drain(drain: Drain) -> str:
    lost = ", ".join(f"{units:.4g} units/s of {name}" for name, units in sorted(drain.loss.items()))
    text = f"drain {drain.instance_id}, {-drain.usd_per_hour:+.2f} $/h, {drain.requests} requests: {drain.reason}"
    return f"{text}; until then {lost} are missing" if lost else text


def _release(release: Release) -> str:
    return f"release {release.instance_id}, {-release.usd_per_hour:+.2f} $/h: {release.reason}"


def _wait(wait: Wait) -> str:
    template_id, zone, market = wait.column
    until = f" until {wait.until.isoformat()}" if wait.until is not None else ""
    return f"wait ({wait.kind}), {wait.count} × {template_id[:8]} in {zone}, {market}{until}: {wait.reason}"
