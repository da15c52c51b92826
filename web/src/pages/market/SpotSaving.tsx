import { useQuery } from "@tanstack/react-query";
import { type Cell, cells } from "@/api/market";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Usd, percent } from "@/components/figures";
import { GpuSwatch } from "@/components/gpu";
import { Meter } from "@/components/Meter";
import { TableBox } from "@/components/TableBox";

/** The cheapest GPU of each kind on both markets. */
export function SpotSaving({ fits }: { fits: (cell: Cell) => boolean }) {
  const held = useQuery(cells("on-demand"));
  const spot = useQuery(cells("spot"));
  return (
    <Card title="Spot against on-demand, cheapest GPU" flush>
      <Loaded query={held}>
        {({ items }) => {
          const dear = least(items.filter(fits));
          const cheap = least((spot.data?.items ?? []).filter(fits));
          const both = [...dear].filter(([name]) => cheap.has(name));
          if (!both.length) return <Empty compact title="Nothing to compare">No GPU of this choice is sold on both markets.</Empty>;
          return (
            <TableBox label="Spot against on-demand">
              <table>
                <thead>
                  <tr>
                    <th scope="col">GPU</th>
                    <th scope="col" className="right">On-demand</th>
                    <th scope="col" className="right">Spot</th>
                    <th scope="col">Of the price</th>
                  </tr>
                </thead>
                <tbody>
                  {both.map(([name, price]) => {
                    const low = cheap.get(name) ?? price;
                    const share = price ? low / price : 1;
                    return (
                      <tr key={name}>
                        <td><span className="row"><GpuSwatch gpu={name} />{name}</span></td>
                        <td className="right"><Usd value={price} per="h" /></td>
                        <td className="right"><Usd value={low} per="h" /></td>
                        <td>
                          <div className="num">{percent(share)}</div>
                          <Meter label={`Spot ${name} costs ${percent(share)} of on-demand`} share={share} />
                        </td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </TableBox>
          );
        }}
      </Loaded>
    </Card>
  );
}

function least(items: Cell[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const { gpu, usd_per_gpu_hour } of [...items].sort((a, b) => a.gpu.localeCompare(b.gpu))) {
    found.set(gpu, Math.min(usd_per_gpu_hour, found.get(gpu) ?? Number.POSITIVE_INFINITY));
  }
  return found;
}
