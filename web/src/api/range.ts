/** A span of time as the address says it: so long until now, or between two moments (ISO 8601). */
export type Range = { hours: number } | { since: string; until: string };

export const RANGES = [
  { value: "1h", label: "1 hour", hours: 1 },
  { value: "6h", label: "6 hours", hours: 6 },
  { value: "24h", label: "24 hours", hours: 24 },
  { value: "7d", label: "7 days", hours: 168 },
  { value: "30d", label: "30 days", hours: 720 },
] as const;

/** What the address says; an hour where it says nothing that can be read. */
export function rangeOf(said: URLSearchParams): Range {
  const [since, until] = [moment(said.get("since")), moment(said.get("until"))];
  if (since !== null && until !== null && since < until) return { since: new Date(since).toISOString(), until: new Date(until).toISOString() };
  return { hours: RANGES.find(({ value }) => value === said.get("range"))?.hours ?? 1 };
}

export function spanOf(range: Range): { since: string; until?: string } {
  if ("since" in range) return range;
  return { since: new Date(Date.now() - range.hours * 3_600_000).toISOString() };
}

function moment(text: string | null): number | null {
  const found = Date.parse(text ?? "");
  return Number.isNaN(found) ? null : found;
}
