import type { ReactNode } from "react";
import { Chart, type Line } from "@/components/Chart";
import { Empty } from "@/components/feedback";

export type Drawn = Line & { now: (value: number) => ReactNode };

type PlotProps = {
  title: string;
  at: number[];
  lines: Drawn[];
  format: (value: number) => string;
  /** Why there is nothing to draw. */
  none: string;
  fromZero?: boolean;
  onSpan: (begin: number, end: number) => void;
};

/** Lines over time with their newest values, which are what a legend is for. */
export function Plot({ title, at, lines, format, none, fromZero, onSpan }: PlotProps) {
  const isEmpty = lines.every((line) => line.dashed || line.values.every((value) => value == null));
  return (
    <section className="plot" aria-label={title}>
      <h3>{title}</h3>
      {isEmpty ? (
        <Empty compact title="Nothing was recorded">
          <p>{none}</p>
        </Empty>
      ) : (
        <>
          <div className="legend">
            {lines.map((line) => (
              <span key={line.name}>
                <i className={line.dashed ? "swatch dashed" : "swatch"} style={{ ["--line" as string]: line.colour }} aria-hidden />
                {line.name}
                <strong>{newest(line)}</strong>
              </span>
            ))}
          </div>
          <Chart label={`${title}: ${told(lines, format)}`} at={at} lines={lines} format={format} height={150} fromZero={fromZero} together="performance" onSpan={onSpan} />
        </>
      )}
    </section>
  );
}

function newest(line: Drawn): ReactNode {
  const last = line.values.findLast((value) => value != null);
  return last == null ? <span className="muted">–</span> : line.now(last);
}

/** What is drawn, for those who do not see it: where each line is now, and its lowest and highest value. */
function told(lines: Drawn[], format: (value: number) => string): string {
  const parts = lines.map((line) => {
    const known = line.values.filter((value): value is number => value != null);
    const last = known.at(-1);
    if (last === undefined) return `${line.name} not known`;
    return `${line.name} ${format(last)} now, between ${format(Math.min(...known))} and ${format(Math.max(...known))}`;
  });
  return parts.join("; ");
}
