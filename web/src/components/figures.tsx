import { useEffect, useState } from "react";

/* Numbers and times as people read them, each with the API's own value in `value` or `dateTime`. */

type Figure = { value: number | null | undefined; none?: string };

const NONE = "–";

function shown(value: number, most: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: most });
}

/** Three significant digits below a thousand, none behind the point above. */
export function brief(value: number): string {
  const size = Math.abs(value);
  if (size >= 1_000_000_000) return `${shown(value / 1_000_000_000, 2)}B`;
  if (size >= 1_000_000) return `${shown(value / 1_000_000, 2)}M`;
  if (size >= 100_000) return `${shown(value / 1_000, 0)}k`;
  if (size >= 1_000) return shown(value, 0);
  if (size === 0) return "0";
  return value.toLocaleString(undefined, { maximumSignificantDigits: 3 });
}

export function dollars(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 10_000 ? 0 : size > 0 && size < 0.095 ? 4 : 2;
  const text = size.toLocaleString(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${value < 0 && Number(size.toFixed(digits)) > 0 ? "−" : ""}$${text}`;
}

export function percent(share: number): string {
  const value = Math.abs(share * 100);
  const text = value.toLocaleString(undefined, { maximumFractionDigits: value < 1 || value > 99 ? 2 : 1 });
  return `${share < 0 && text !== "0" ? "−" : ""}${text}%`;
}

export function Num({ value, none = NONE }: Figure) {
  if (value == null) return <span className="muted">{none}</span>;
  return <data value={value}>{brief(value)}</data>;
}

/** `sign`: it is a change, and says which way. */
export function Count({ value, none = NONE, sign }: Figure & { sign?: boolean }) {
  if (value == null) return <span className="muted">{none}</span>;
  return (
    <data value={value}>
      {value < 0 ? "−" : sign && value > 0 ? "+" : ""}
      {Math.abs(value).toLocaleString()}
    </data>
  );
}

export function Usd({ value, none = NONE, per, sign }: Figure & { per?: string; sign?: boolean }) {
  if (value == null) return <span className="muted">{none}</span>;
  const plus = sign && value > 0 && dollars(value) !== dollars(0) ? "+" : "";
  return (
    <data value={value} className="nowrap">
      {plus}
      {dollars(value)}
      {per && <small className="muted">/{per}</small>}
    </data>
  );
}

export function Percent({ value, none = NONE, sign }: Figure & { sign?: boolean }) {
  if (value == null) return <span className="muted">{none}</span>;
  return (
    <data value={value}>
      {sign && value > 0 ? "+" : ""}
      {percent(value)}
    </data>
  );
}

export function Millis({ value, none = NONE }: Figure) {
  if (value == null) return <span className="muted">{none}</span>;
  return <data value={value} className="nowrap">{value >= 10_000 ? `${brief(value / 1000)} s` : `${brief(value)} ms`}</data>;
}

export function Seconds({ value, none = NONE }: Figure) {
  if (value == null) return <span className="muted">{none}</span>;
  return <data value={value}>{duration(value)}</data>;
}

function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${brief(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${brief(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

const WHOLE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

/** A moment in the viewer's zone. `ago`: how long it has been (or will be), kept up to date. */
export function Time({ at, ago = false, none = NONE }: { at: string | null | undefined; ago?: boolean; none?: string }) {
  const now = useNow(ago);
  if (!at) return <span className="muted">{none}</span>;
  const moment = new Date(at);
  return (
    <time dateTime={at} title={WHOLE.format(moment)} className="nowrap">
      {ago ? relative((now - moment.getTime()) / 1000) : near(moment)}
    </time>
  );
}

export function clock(moment: Date): string {
  return CLOCK.format(moment);
}

export function near(moment: Date): string {
  return Math.abs(Date.now() - moment.getTime()) < 72_000_000 ? CLOCK.format(moment) : DAY.format(moment);
}

export function wholeMoment(moment: Date): string {
  return WHOLE.format(moment);
}

export function relative(seconds: number): string {
  if (Math.abs(seconds) < 5) return "just now";
  return seconds > 0 ? `${duration(Math.round(seconds))} ago` : `in ${duration(Math.round(-seconds))}`;
}

export function useNow(ticks = true, everyMs = 5_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!ticks) return;
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [ticks, everyMs]);
  return now;
}
