import { useSyncExternalStore } from "react";

/** Follows whether the API answers, and when it did last: what a page shows is as old as that. */
export type Reach = { away: boolean; answeredAt: number };

let reach: Reach = { away: false, answeredAt: Date.now() };
const listeners = new Set<() => void>();

export function answered(): void {
  const before = reach;
  reach = { away: false, answeredAt: Date.now() };
  if (before.away) for (const tell of listeners) tell();
}

export function unreachable(): void {
  if (reach.away) return;
  reach = { ...reach, away: true };
  for (const tell of listeners) tell();
}

function onReach(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// `answeredAt` is read when it is shown: only a change of `away` draws anything anew.
export function useAway(): boolean {
  return useSyncExternalStore(onReach, () => reach.away);
}

export function lastAnswer(): number {
  return reach.answeredAt;
}
