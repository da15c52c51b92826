import type { Schemas } from "@/api/client";
import type { Line } from "./Chart";

/** Dollars an hour over time for a chart: each span's average as a step, and at the end the rate now, which the last span's average says little of. */
export function rateOver(spans: Schemas["CostPoint"][], now: number | undefined): { at: number[]; lines: Line[] } {
  const last = spans.at(-1);
  const values = [...spans.map((span) => span.usd_per_hour), ...(last ? [now ?? last.usd_per_hour] : [])];
  return {
    at: [...spans.map((span) => Date.parse(span.since)), ...(last ? [Date.parse(last.until)] : [])],
    lines: [{ name: "$/h", colour: "var(--accent)", values, fill: true, stepped: true }],
  };
}
