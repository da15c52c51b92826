import type { Tone } from "./Badge";

/** A share of a whole; `mark`: where something else is, such as what is needed. Both 0 to 1, more is cut off. */
export function Meter({ label, share, mark, tone = "accent" }: { label: string; share: number; mark?: number; tone?: Tone }) {
  const width = (value: number) => `${100 * Math.min(Math.max(value, 0), 1)}%`;
  return (
    <div className="meter" role="img" aria-label={label}>
      <i className={tone} style={{ width: width(share) }} />
      {mark !== undefined && <b style={{ left: `calc(${width(mark)} - 1px)` }} />}
    </div>
  );
}
