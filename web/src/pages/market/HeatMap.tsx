import type { Cell } from "@/api/market";
import { configName, GpuSwatch } from "@/components/gpu";
import { TableBox } from "@/components/TableBox";
import type { Measure } from "./measures";

type HeatMapProps = { cells: Cell[]; measure: Measure; chosen: string; choose: (cell: Cell) => void };

const STEPS = 6;

/** Regions down, node configurations across; each cell holds its figure, the colour only repeats it. */
export function HeatMap({ cells, measure, chosen, choose }: HeatMapProps) {
  const places = [...new Set(cells.map((cell) => `${cell.cloud}/${cell.region}`))].sort();
  const sold = new Map<string, number>();
  for (const { gpu } of cells) sold.set(gpu, (sold.get(gpu) ?? 0) + 1);
  // What most regions sell comes first: it is what is looked for, and leaves few holes where the map begins.
  const configs = [...new Map(cells.map((cell) => [cell.node_config, cell])).values()].sort(
    (a, b) => (sold.get(b.gpu) ?? 0) - (sold.get(a.gpu) ?? 0) || a.gpu.localeCompare(b.gpu) || a.gpu_count - b.gpu_count || a.node_config.localeCompare(b.node_config),
  );
  const at = new Map(cells.map((cell) => [`${cell.cloud}/${cell.region}/${cell.node_config}`, cell]));
  const step = steps(cells, measure);
  return (
    <TableBox label={measure.title} className="heat">
      <table>
        <thead>
          <tr>
            <th scope="col">Region</th>
            {configs.map((config) => (
              <th scope="col" key={config.node_config} title={config.node_config}>
                <span className="row">
                  <GpuSwatch gpu={config.gpu} />
                  {configName(config.node_config)}
                </span>
                <small>{config.node_config.split("/")[1]}</small>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {places.map((place) => (
            <tr key={place}>
              <th scope="row">{place}</th>
              {configs.map(({ node_config }) => {
                const cell = at.get(`${place}/${node_config}`);
                if (!cell) return <td key={node_config} />;
                const value = measure.of(cell);
                return (
                  <td key={node_config}>
                    <button
                      type="button"
                      className={value === null ? "cell none" : `cell heat-${step(cell.gpu, value)}`}
                      aria-pressed={chosen === `${place}/${node_config}`}
                      aria-label={`${configName(node_config)} in ${place}: ${value === null ? measure.none : measure.format(value)}`}
                      onClick={() => choose(cell)}
                    >
                      {value === null ? "?" : <data value={value}>{measure.format(value)}</data>}
                    </button>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

/** Shades go by rank among the cells of one GPU, the best the strongest: one dear machine must not make all others look
 * alike, and that an H100 costs more than a T4 is known. */
function steps(cells: Cell[], measure: Measure): (gpu: string, value: number) => number {
  const ranks = new Map<string, Map<number, number>>();
  for (const gpu of new Set(cells.map((cell) => cell.gpu))) {
    const values = cells.filter((cell) => cell.gpu === gpu).map(measure.of);
    const ordered = [...new Set(values.filter((value) => value !== null))].sort((a, b) => (measure.isLowBest ? b - a : a - b));
    // A price that is the only one is neither good nor bad.
    ranks.set(gpu, new Map(ordered.map((value, place) => [value, ordered.length > 1 ? place / (ordered.length - 1) : 0.5])));
  }
  return (gpu, value) => Math.round((STEPS - 1) * (ranks.get(gpu)?.get(value) ?? 0.5));
}
