import type { PlannedApp } from "@/api/apps";
import { brief, dollars, percent } from "@/components/figures";
import { TableBox } from "@/components/TableBox";

const BOX = { width: 156, height: 74 };
const PITCH = { x: 272, y: 104 };
const PAD = 16;
const THIN = 1.5;
const WIDEST = 8;

type Place = { x: number; y: number };

/** Components from left to right as requests visit them, and what is sent between them. The tables below say the same in words. */
export function Graph({ app }: { app: PlannedApp }) {
  const places = placed(app);
  const spots = [...places.values()];
  const width = Math.max(...spots.map((spot) => spot.x)) + BOX.width + PAD;
  const height = Math.max(...spots.map((spot) => spot.y)) + BOX.height + PAD;
  const most = Math.max(...app.edges.map((edge) => edge.bytes_per_s), 1);
  return (
    <TableBox label="Graph" className="app-graph">
      <svg width={width} height={height} role="img" aria-label={`${app.components.map((each) => each.component).join(", ")}, and what they send each other`}>
        {app.edges.map((edge) => {
          const [from, to] = [places.get(edge.source), places.get(edge.target)];
          if (!from || !to) return null;
          const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
          const bend = (x2 - x1) / 2;
          const isSent = edge.bytes_per_s > 0;
          const stroke = isSent ? THIN + (WIDEST - THIN) * Math.sqrt(edge.bytes_per_s / most) : THIN;
          return (
            <g key={`${edge.source} ${edge.target}`}>
              <path className={isSent ? "flow" : "flow inner"} strokeWidth={stroke} d={`M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`} />
              {isSent && (
                <text className="sent" x={(x1 + x2) / 2} y={(y1 + y2) / 2 - 8 - stroke / 2} textAnchor="middle">
                  {brief(edge.sent_per_s)}/s · {brief(edge.bytes_per_s)} B/s
                </text>
              )}
            </g>
          );
        })}
        {app.components.map((each) => {
          const spot = places.get(each.component) ?? { x: PAD, y: PAD };
          const usd = each.usd_per_hour + each.shared_usd_per_hour;
          return (
            <g key={each.component} transform={`translate(${spot.x},${spot.y})`}>
              <rect className="box" width={BOX.width} height={BOX.height} rx={8} />
              <rect className="load" width={BOX.width * Math.min(each.load ?? 0, 1)} height={4} y={BOX.height - 4} />
              <text className="name" x={12} y={22}>{each.component}</text>
              <text x={12} y={41}>{brief(each.requests_per_s)} requests/s</text>
              <text x={12} y={59}>{each.load == null ? "nothing runs it" : `${percent(each.load)} · ${dollars(usd)}/h`}</text>
            </g>
          );
        })}
      </svg>
    </TableBox>
  );
}

/** Each component stands right of all that it takes rows from. */
function placed(app: PlannedApp): Map<string, Place> {
  const depth = new Map<string, number>();
  for (const { component } of app.components) {
    const before = app.edges.filter((edge) => edge.target === component).map((edge) => (depth.get(edge.source) ?? 0) + 1);
    depth.set(component, Math.max(0, ...before));
  }
  const rows = new Map<number, number>();
  for (const column of depth.values()) rows.set(column, (rows.get(column) ?? 0) + 1);
  const tallest = Math.max(...rows.values());
  const taken = new Map<number, number>();
  const places = new Map<string, Place>();
  for (const [component, column] of depth) {
    const row = taken.get(column) ?? 0;
    taken.set(column, row + 1);
    const centred = (tallest - (rows.get(column) ?? 1)) / 2;
    places.set(component, { x: PAD + column * PITCH.x, y: PAD + (row + centred) * PITCH.y });
  }
  return places;
}
