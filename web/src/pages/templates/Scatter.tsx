import { useLayoutEffect, useRef, useState } from "react";
import type { TemplateItem } from "@/api/library";
import { brief, dollars } from "@/components/figures";
import { configName } from "@/components/gpu";
import { isMixed } from "./front";

type ScatterProps = { items: TemplateItem[]; front: TemplateItem[]; unit: string; chosen: string | undefined; choose: (id: string) => void };

const HEIGHT = 340;
const PAD = { left: 62, right: 28, top: 12, bottom: 40 };
const REACH_PX = 14;
const NARROW = 480;

/** One dot a template. The table of the front beside it says the same to those who do not see or point. */
export function Scatter({ items, front, unit, chosen, choose }: ScatterProps) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [near, setNear] = useState<TemplateItem | null>(null);
  useLayoutEffect(() => {
    const target = box.current;
    if (!target) return;
    const sized = new ResizeObserver(() => setWidth(Math.max(target.clientWidth, 240)));
    sized.observe(target);
    return () => sized.disconnect();
  }, []);
  const xs = ticks(Math.max(...items.map((item) => item.usd_per_hour ?? 0)), width < NARROW ? 3 : 5);
  const ys = ticks(Math.max(...items.map((item) => item.units_per_s)), 5);
  const digits = Math.max(0, Math.ceil(-Math.log10(xs[1] ?? 1)) + 1);
  const x = (usd: number) => PAD.left + (usd / (xs.at(-1) ?? 1)) * (width - PAD.left - PAD.right);
  const y = (units: number) => HEIGHT - PAD.bottom - (units / (ys.at(-1) ?? 1)) * (HEIGHT - PAD.top - PAD.bottom);
  const place = (item: TemplateItem): [number, number] => [x(item.usd_per_hour ?? 0), y(item.units_per_s)];
  const nearest = (event: React.MouseEvent): TemplateItem | null => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const away = (item: TemplateItem) => {
      const [px, py] = place(item);
      return Math.hypot(px - (event.clientX - left), py - (event.clientY - top));
    };
    const found = items.reduce<TemplateItem | null>((best, item) => (best && away(best) <= away(item) ? best : item), null);
    return found && away(found) <= REACH_PX ? found : null;
  };
  return (
    <div className="scatter" ref={box}>
      {/* for the pointer only; the table of the front is for the keyboard */}
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={`${items.length} templates by ${unit}s a second and dollars an hour; ${front.length} are on the Pareto front`}
        onMouseMove={(event) => setNear(nearest(event))}
        onMouseLeave={() => setNear(null)}
        onClick={(event) => {
          const found = nearest(event);
          if (found) choose(found.id);
        }}
      >
        {ys.map((value) => (
          <g key={value}>
            <line className="rule" x1={PAD.left} x2={width - PAD.right} y1={y(value)} y2={y(value)} />
            <text x={PAD.left - 8} y={y(value) + 4} textAnchor="end">{brief(value)}</text>
          </g>
        ))}
        {xs.map((value) => (
          <text key={value} x={x(value)} y={HEIGHT - PAD.bottom + 16} textAnchor="middle">${value.toLocaleString(undefined, { maximumFractionDigits: digits })}</text>
        ))}
        <text x={width - PAD.right} y={HEIGHT - 6} textAnchor="end">least price, $/h</text>
        <polyline className="front" points={steps(front.map(place))} />
        {items.map((item) => {
          const [cx, cy] = place(item);
          const looks = [isMixed(item) ? "mixed" : "uniform", item === near || item.id === chosen ? "chosen" : ""].join(" ");
          return <circle key={item.id} cx={cx} cy={cy} r={looks.includes("chosen") ? 6 : 3.5} className={looks} />;
        })}
      </svg>
      {near && <Readout item={near} unit={unit} left={place(near)[0]} top={place(near)[1]} width={width} />}
    </div>
  );
}

function Readout({ item, unit, left, top, width }: { item: TemplateItem; unit: string; left: number; top: number; width: number }) {
  const side = left > width / 2 ? { right: width - left + 12 } : { left: left + 12 };
  return (
    <div className="readout num" style={{ top: Math.max(0, top - 30), ...side }}>
      <div className="strong">{Object.entries(item.nodes).map(([config, count]) => `${count} × ${configName(config)}`).join(" + ")}</div>
      <div>{brief(item.units_per_s)} {unit}s/s for {dollars(item.usd_per_hour ?? 0)}/h</div>
    </div>
  );
}

/** A front is a staircase: between two templates the dearer one must be taken. */
function steps(points: [number, number][]): string {
  return points.map(([px, py], i) => (i ? `${px},${points[i - 1]?.[1] ?? py} ${px},${py}` : `${px},${py}`)).join(" ");
}

/** From 0 to at least `most`, in round steps, about `parts` of them. */
function ticks(most: number, parts: number): number[] {
  if (!(most > 0)) return [0, 1];
  const rough = most / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((each) => each * power >= rough) ?? 10);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, i) => i * step);
}
