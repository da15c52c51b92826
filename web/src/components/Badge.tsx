import type { ReactNode } from "react";

export type Tone = "plain" | "good" | "warn" | "bad" | "info" | "accent";

export function Badge({ tone = "plain", dot, children }: { tone?: Tone; dot?: boolean; children: ReactNode }) {
  return (
    <span className={`badge ${tone}`}>
      {dot && <i className="dot" aria-hidden />}
      <span className="clip">{children}</span>
    </span>
  );
}

const STATES: Record<string, Tone> = {
  requested: "info",
  provisioning: "info",
  bootstrapping: "info",
  loading: "info",
  ready: "good",
  draining: "warn",
  terminating: "warn",
  terminated: "plain",
  failed: "bad",
};

/** Shows where an instance is in its life. */
export function StateBadge({ state }: { state: string }) {
  return (
    <Badge tone={STATES[state] ?? "plain"} dot>
      {state}
    </Badge>
  );
}
