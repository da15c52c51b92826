import { useMemo } from "react";
import { feature } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";
import world from "world-atlas/land-110m.json";
import type { Cell } from "@/api/market";
import { configName } from "@/components/gpu";
import type { Measure } from "./measures";
import { placeOfRegion } from "./places";

const WIDTH = 1000;
const [NORTH, SOUTH] = [72, -50];
const HEIGHT = ((NORTH - SOUTH) / 360) * WIDTH;
/** Percent of the width by which regions of several clouds in one place stand apart. */
const APART = 1.1;

type Region = { key: string; cells: Cell[]; best: Cell; left: number; top: number };
type RegionMapProps = { cells: Cell[]; measure: Measure; chosen: string; choose: (cell: Cell) => void };

/** Regions where they are: the better the figure the stronger the colour, a ring where none can be had now. */
export function RegionMap({ cells, measure, chosen, choose }: RegionMapProps) {
  const land = useMemo(landPath, []);
  const { placed, others } = useMemo(() => regionsOf(cells, measure), [cells, measure]);
  const values = [...new Set(placed.map((each) => measure.of(each.best)).filter((value) => value !== null))].sort((a, b) => (measure.isLowBest ? b - a : a - b));
  const strength = (value: number | null) => (value === null || values.length < 2 ? 0.5 : values.indexOf(value) / (values.length - 1));
  return (
    <div className="inset">
      <div className="region-map">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden>
          <path d={land} />
        </svg>
        {placed.map((each) => {
          const value = measure.of(each.best);
          const text = `${each.key}: ${value === null ? measure.none : measure.format(value)}, ${configName(each.best.node_config)}, ${stockOf(each)}`;
          return (
            <button
              key={each.key}
              type="button"
              className={each.cells.every((cell) => cell.available_count === 0) ? "place empty-stock" : "place"}
              style={{ left: `${each.left}%`, top: `${each.top}%`, ["--strength" as string]: `${Math.round(100 * strength(value))}%` }}
              aria-label={text}
              aria-pressed={chosen.startsWith(`${each.key}/`)}
              title={text}
              onClick={() => choose(each.best)}
            />
          );
        })}
      </div>
      {others.length > 0 && <p className="muted off-map">Not on the map, as their clouds do not say where they are: {others.join(", ")}.</p>}
    </div>
  );
}

function stockOf({ cells }: Region): string {
  const known = cells.flatMap((cell) => cell.available_count ?? []);
  if (!known.length) return "stock not known";
  const nodes = known.reduce((sum, count) => sum + count, 0);
  return `${nodes} ${nodes === 1 ? "node" : "nodes"} to be had${known.length < cells.length ? " at least" : ""}`;
}

function regionsOf(cells: Cell[], measure: Measure): { placed: Region[]; others: string[] } {
  const groups = new Map<string, Cell[]>();
  for (const cell of cells) {
    const key = `${cell.cloud}/${cell.region}`;
    groups.set(key, [...(groups.get(key) ?? []), cell]);
  }
  const taken = new Map<string, number>();
  const placed: Region[] = [];
  const others: string[] = [];
  for (const [key, own] of [...groups].sort()) {
    const [cell] = own;
    const at = cell && placeOfRegion(cell.cloud, cell.region);
    if (!at) {
      others.push(key);
      continue;
    }
    const [left, top] = [((at[1] + 180) / 360) * 100, ((NORTH - at[0]) / (NORTH - SOUTH)) * 100];
    const spot = `${Math.round(left)} ${Math.round(top / 3)}`;
    const before = taken.get(spot) ?? 0;
    taken.set(spot, before + 1);
    placed.push({ key, cells: own, best: bestOf(own, measure), left: left + before * APART, top });
  }
  return { placed, others };
}

function bestOf(cells: Cell[], measure: Measure): Cell {
  const worth = (cell: Cell) => {
    const value = measure.of(cell);
    return value === null ? Number.NEGATIVE_INFINITY : measure.isLowBest ? -value : value;
  };
  return cells.reduce((best, cell) => (worth(cell) > worth(best) ? cell : best));
}

/** The land of the world, in the same projection: degrees as they are. */
function landPath(): string {
  const topology = world as unknown as Topology<{ land: GeometryCollection }>;
  const land = feature(topology, topology.objects.land);
  const rings = land.features.flatMap(({ geometry }) => (geometry.type === "MultiPolygon" ? geometry.coordinates.flat() : geometry.type === "Polygon" ? geometry.coordinates : []));
  return rings.map(ringPath).join("");
}

/** A ring that goes round the edge of the map goes on at its other side, without a line across. */
function ringPath(ring: number[][]): string {
  return ring
    .map(([east = 0, north = 0], place) => {
      const jumps = place === 0 || Math.abs(east - (ring[place - 1]?.[0] ?? east)) > 180;
      return `${jumps ? "M" : "L"}${(((east + 180) / 360) * WIDTH).toFixed(1)} ${(((NORTH - north) / 360) * WIDTH).toFixed(1)}`;
    })
    .join("");
}
