import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "@/theme";
import { clock, wholeMoment } from "./figures";

/** `stepped`: a value holds until the next one. */
export type Line = { name: string; colour: string; values: (number | null)[]; fill?: boolean; dashed?: boolean; stepped?: boolean };

/** What lines are drawn over where that is no time. `mark`: a place to be seen among the others. */
export type Across = { format: (at: number) => string; mark: number };

type ChartProps = {
  /** What it shows, with its main figures, for those who do not see it. */
  label: string;
  /** Milliseconds since the epoch, or places of `across`; the lowest first. */
  at: number[];
  across?: Across;
  /** What is read out where a line has no value. */
  none?: string;
  lines: Line[];
  format: (value: number) => string;
  height?: number;
  fromZero?: boolean;
  /** Charts of one name are read out at the same moment. */
  together?: string;
  /** A span that somebody marks by dragging, in milliseconds since the epoch. */
  onSpan?: (begin: number, end: number) => void;
};

/** Values over time, or across something else, drawn on a canvas in the theme's colours; the nearest ones are read out under the pointer. */
export function Chart({ label, at, across, none = "–", lines, format, height = 180, fromZero = true, together, onSpan }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const formatted = useRef(format);
  formatted.current = format;
  const placed = useRef(across);
  placed.current = across;
  const marked = useRef(onSpan);
  marked.current = onSpan;
  const [read, setRead] = useState<{ left: number; index: number } | null>(null);
  const theme = useTheme();
  const data: uPlot.AlignedData = [across ? at : at.map((ms) => ms / 1000), ...lines.map((line) => line.values)];
  const shape = `${theme} ${height} ${fromZero} ${across !== undefined} ${lines.map((l) => `${l.name}${l.colour}${l.fill}${l.dashed}${l.stepped}`).join()}`;

  // drawn anew only when its shape changes; data is set below, without flicker
  useEffect(() => {
    const target = box.current;
    if (!target) return;
    const css = (name: string) => getComputedStyle(target).getPropertyValue(name).trim();
    const own = (colour: string) => (colour.startsWith("var(") ? css(colour.slice(4, -1)) : colour);
    const axis = { stroke: css("--muted"), font: "11px Inter Variable, sans-serif", ticks: { show: false } };
    const made = new uPlot(
      {
        width: Math.max(target.clientWidth, 50),
        height,
        padding: [8, 30, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          points: { size: 6 },
          ...(together ? { sync: { key: together, setSeries: false } } : {}),
          ...(marked.current ? { drag: { x: true, y: false, setScale: false } } : {}),
        },
        scales: { ...(across ? { x: { time: false, range: aside } } : {}), y: { range: (_, low, high) => bounds(low, high, fromZero) } },
        axes: [
          placed.current
            ? { ...axis, grid: { show: false }, size: 26, splits: (u) => roomFor(u, placed.current), values: (_, places) => places.map((each) => placed.current?.format(each) ?? "") }
            : { ...axis, grid: { show: false }, size: (_, texts) => (texts?.some((text) => text.includes("\n")) ? 40 : 26), space: 84, values: (_, ticks) => ticksOf(ticks) },
          { ...axis, grid: { stroke: css("--grid"), width: 1 }, size: (_, values) => 14 + 6.6 * Math.max(...(values ?? [""]).map((text) => text.length)), space: 36, values: (_, ticks) => wholes(ticks.map((v) => formatted.current(v))) },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.name,
            stroke: own(line.colour),
            width: 1.75,
            ...(line.stepped && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
            ...(line.dashed ? { dash: [5, 4] } : {}),
            ...(line.fill ? { fill: `${own(line.colour)}22` } : {}),
            points: { show: across !== undefined || at.length < 2 },
          })),
        ],
        hooks: {
          draw: [(u) => placed.current && drawAcross(u, placed.current, css("--muted"), css("--bad"))],
          setSelect: [(u) => markSpan(u, marked.current)],
          setCursor: [(u) => setRead(u.cursor.idx == null ? null : { left: u.cursor.left ?? 0, index: u.cursor.idx })],
        },
      },
      data,
      target,
    );
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: Math.max(target.clientWidth, 50), height }));
    resized.observe(target);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);

  // the data as a whole
  useEffect(() => plot.current?.setData(data), [JSON.stringify(data), across?.mark]);

  const index = read?.index;
  return (
    <figure className="chart" role="img" aria-label={label}>
      <div ref={box} style={{ minHeight: height }} />
      {read && index !== undefined && at[index] !== undefined && (
        <div className="readout num" style={read.left > 200 ? { right: `calc(100% - ${read.left + 46}px)` } : { left: read.left + 70 }}>
          <div className="muted">{across ? across.format(at[index]) : wholeMoment(new Date(at[index]))}</div>
          {lines.map((line) => (
            <div key={line.name} className="row">
              <i className="swatch" style={{ background: line.colour }} />
              {line.name}
              <strong>{line.values[index] == null ? none : format(line.values[index])}</strong>
            </div>
          ))}
        </div>
      )}
    </figure>
  );
}

const LEAST_PX = 8;

/** A click moves a little, too: only what is wider was meant. */
function markSpan(u: uPlot, onSpan: ChartProps["onSpan"]): void {
  const { left, width } = u.select;
  if (!onSpan || width < LEAST_PX) return;
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onSpan(1000 * u.posToVal(left, "x"), 1000 * u.posToVal(left + width, "x"));
}

const LABEL_PX = 62;

/** Places that are said, of those that are drawn: as many as there is room for, the marked one first. */
function roomFor(u: uPlot, across: Across | undefined): number[] {
  const kept = across ? [across.mark] : [];
  const px = (place: number) => u.valToPos(place, "x");
  for (const place of u.data[0]) {
    if (kept.every((other) => Math.abs(px(place) - px(other)) >= LABEL_PX)) kept.push(place);
  }
  return kept.sort((a, b) => a - b);
}

/** A little room beside the first and the last place, for their points and labels. */
function aside(_: uPlot, low: number, high: number): [number, number] {
  const room = (high - low || 1) * 0.06;
  return [low - room, high + room];
}

/** The marked place as a line from top to bottom, and a cross where no line has a value. */
function drawAcross(u: uPlot, across: Across, markColour: string, gapColour: string): void {
  const { ctx, bbox } = u;
  const px = window.devicePixelRatio || 1;
  const x = (place: number) => u.valToPos(place, "x", true);
  ctx.save();
  ctx.lineWidth = 1.25 * px;
  ctx.strokeStyle = markColour;
  ctx.setLineDash([4 * px, 3 * px]);
  stroke(ctx, [x(across.mark), bbox.top, x(across.mark), bbox.top + bbox.height]);
  ctx.setLineDash([]);
  ctx.strokeStyle = gapColour;
  ctx.lineWidth = 1.75 * px;
  const arm = 4 * px;
  const y = bbox.top + bbox.height - 3 * arm;
  u.data[0].forEach((place, index) => {
    if (u.data.slice(1).some((values) => values[index] != null)) return;
    stroke(ctx, [x(place) - arm, y - arm, x(place) + arm, y + arm]);
    stroke(ctx, [x(place) - arm, y + arm, x(place) + arm, y - arm]);
  });
  ctx.restore();
}

function stroke(ctx: CanvasRenderingContext2D, [x0, y0, x1, y1]: [number, number, number, number]): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

const DATE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** Over more than two days the hour is of no use and takes the room; over less the day is said below it, where it changes. */
function ticksOf(ticks_s: number[]): string[] {
  const days = ticks_s.map((at_s) => DATE.format(at_s * 1000));
  if ((ticks_s.at(-1) ?? 0) - (ticks_s[0] ?? 0) > 172_800) return days;
  const isOneDay = new Set([...days, DATE.format(Date.now())]).size === 1;
  return ticks_s.map((at_s, place) => clock(new Date(at_s * 1000)) + (isOneDay || days[place] === days[place - 1] ? "" : `\n${days[place]}`));
}

/** Zeros behind every point say nothing. */
function wholes(texts: string[]): string[] {
  return texts.every((text) => /\.0+$/.test(text)) ? texts.map((text) => text.replace(/\.0+$/, "")) : texts;
}

function bounds(low: number | null, high: number | null, fromZero: boolean): [number, number] {
  if (low == null || high == null) return [0, 1];
  const top = high === low && high === 0 ? 1 : high;
  return fromZero ? [Math.min(0, low), top * 1.08] : [low - (top - low || top) * 0.1, top + (top - low || top) * 0.1];
}

/** The shape of a few values, in a line of text's height. */
export function Sparkline({ label, values, colour = "var(--accent)" }: { label: string; values: number[]; colour?: string }) {
  const high = Math.max(...values, 1e-9);
  const step = 100 / Math.max(values.length - 1, 1);
  const points = values.map((value, i) => `${(i * step).toFixed(2)},${(32 - (30 * value) / high).toFixed(2)}`);
  return (
    <svg className="spark" viewBox="0 0 100 34" preserveAspectRatio="none" role="img" aria-label={label}>
      <polygon points={`0,34 ${points.join(" ")} 100,34`} fill={colour} opacity="0.12" />
      <polyline points={points.join(" ")} fill="none" stroke={colour} strokeWidth="1.6" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
