import { Badge, type Tone } from "@/components/Badge";
import { clock } from "@/components/figures";

type Parsed = { at: Date | null; level: string; text: string; more: string };

const TONES: Record<string, Tone> = { error: "bad", critical: "bad", warning: "warn" };

/** Lines of a log: those that are JSON as people read them, others as they are; what is searched for is marked. */
export function LogLines({ lines, find = "" }: { lines: string[]; find?: string }) {
  return (
    <ol className="log" tabIndex={0} aria-label="Lines">
      {lines.map((line, place) => (
        <Line key={place} line={parsed(line)} find={find} />
      ))}
    </ol>
  );
}

function Line({ line, find }: { line: Parsed; find: string }) {
  return (
    <li className="log-line">
      {line.at && <time dateTime={line.at.toISOString()} className="muted">{clock(line.at)}:{String(line.at.getSeconds()).padStart(2, "0")}</time>}
      {line.level && line.level !== "info" && <Badge tone={TONES[line.level] ?? "plain"}>{line.level}</Badge>}
      <span>
        <Marked text={line.text} find={find} />
        {line.more && (
          <span className="muted">
            {" "}
            <Marked text={line.more} find={find} />
          </span>
        )}
      </span>
    </li>
  );
}

function Marked({ text, find }: { text: string; find: string }) {
  const at = find ? text.toLowerCase().indexOf(find.toLowerCase()) : -1;
  if (at < 0) return <>{text}</>;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + find.length)}</mark>
      {text.slice(at + find.length)}
    </>
  );
}

function parsed(line: string): Parsed {
  const plain = { at: null, level: "", text: line, more: "" };
  if (!line.startsWith("{")) return plain;
  try {
    const { at, time, ts, level, message, event, logger: _, ...rest } = JSON.parse(line) as Record<string, unknown>;
    const text = message ?? event;
    if (typeof text !== "string") return plain;
    const moment = new Date(String(at ?? time ?? ts ?? ""));
    const more = Object.entries(rest).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
    return { at: Number.isNaN(moment.getTime()) ? null : moment, level: String(level ?? "").toLowerCase(), text, more: more.join(" ") };
  } catch {
    return plain;
  }
}
