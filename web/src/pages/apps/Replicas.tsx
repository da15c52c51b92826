import type { PlannedApp } from "@/api/apps";
import { Card } from "@/components/Card";
import { Empty } from "@/components/feedback";
import { Count, Usd } from "@/components/figures";
import { configName, GpuSwatch, gpuOf } from "@/components/gpu";
import { TableBox } from "@/components/TableBox";

/** Which components run together, on what, how many, for how much. */
export function Replicas({ app }: { app: PlannedApp }) {
  return (
    <Card title="Executors" flush>
      {app.executors.length ? (
        <TableBox label="Executors">
          <table>
            <thead>
              <tr>
                <th scope="col">Runs together</th>
                <th scope="col">On nodes of</th>
                <th scope="col" className="right">GPUs each</th>
                <th scope="col" className="right">Executors</th>
                <th scope="col" className="right">Rent of all</th>
              </tr>
            </thead>
            <tbody>
              {app.executors.map((each) => (
                <tr key={`${each.components.join("+")} ${each.gpus} ${each.node}`}>
                  <td className="strong">{each.components.join(" + ")}</td>
                  <td>
                    <span className="row nowrap" title={each.node}>
                      <GpuSwatch gpu={gpuOf(each.node)} />
                      {configName(each.node)}
                    </span>
                  </td>
                  <td className="right"><Count value={each.gpus} /></td>
                  <td className="right"><Count value={each.count} /></td>
                  <td className="right"><Usd value={each.usd_per_hour} per="h" /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableBox>
      ) : (
        <Empty compact title="Nothing is planned to run">Plan its fleet: `medley plan`, or POST /api/v1/plans.</Empty>
      )}
    </Card>
  );
}
