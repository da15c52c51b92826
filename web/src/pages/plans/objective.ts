import type { Schemas } from "@/api/client";
import { brief } from "@/components/figures";

export type Axis = Schemas["Axis"];
export type Curve = Schemas["ObjectiveCurve"];
export type Point = Schemas["CurvePoint"];

export const AXES: { value: Axis; label: string }[] = [
  { value: "ttft", label: "TTFT" },
  { value: "tpot", label: "TPOT" },
  { value: "percentile", label: "Percentile" },
];

/** Models of a fleet's spec, by the names that it gives them. */
export function modelsOf(fleet: Schemas["Fleet"]): string[] {
  const models = Array.isArray(fleet.spec.models) ? (fleet.spec.models as { name?: string; model?: string }[]) : [];
  return models.flatMap((each) => each.name ?? each.model ?? []);
}

export function valueText(axis: Axis, value: number): string {
  if (axis === "percentile") return `${value} %`;
  return value >= 1000 ? `${brief(value / 1000)} s` : `${brief(value)} ms`;
}

/** Where a value stands in a chart: by its factor, or by the factor of what may be late, so that what is easier is farther right. */
export function placeOf(axis: Axis, value: number): number {
  return Math.log(axis === "percentile" ? 100 - value : value);
}

/** What a point's cost leaves out; empty: nothing. */
export function noteOf(point: Point): string {
  if (point.usd_per_hour == null) return "no template keeps it";
  const unmet = point.unmet_share > 1e-6 ? `${(100 * point.unmet_share).toPrecision(2)} % of the demand unmet` : "";
  return [unmet, point.is_kept ? "" : "not kept in simulation"].filter(Boolean).join("; ");
}

/** Why the easiest of the values that nothing keeps is not kept: it says the nearest that could be. */
export function reasonOf(curve: Curve): string {
  return curve.points.findLast((point) => point.problem)?.problem ?? "";
}

/** A chart in words: for those who do not see it. */
export function summaryOf(curve: Curve, dollars: (usd: number) => string): string {
  const costs = curve.points.flatMap((point) => (point.usd_per_hour == null ? [] : [point]));
  const [first, last] = [costs[0], costs.at(-1)];
  const label = AXES.find((each) => each.value === curve.axis)?.label;
  const gaps = curve.points.length - costs.length;
  const none = gaps ? `; of ${curve.points.length} values no template keeps ${gaps}` : "";
  if (!first || !last) return `No template keeps any of the ${curve.points.length} values`;
  const at = (point: Point) => `${dollars(point.usd_per_hour ?? 0)} an hour at ${valueText(curve.axis, point.value)}`;
  return `Cost of the fleet against ${label} of ${curve.model}: ${at(first)}, ${at(last)}; now ${valueText(curve.axis, curve.now)}${none}`;
}
