import { useQueries, useQuery } from "@tanstack/react-query";
import { givenUp } from "@/api/ledger";
import { fleets } from "@/api/queries";
import { Badge, type Tone } from "@/components/Badge";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Time } from "@/components/figures";
import { TableBox } from "@/components/TableBox";

/** The rungs of policies/degradation.py: each rung keeps what those before it gave up. */
const RUNGS: readonly { name: string; tone: Tone }[] = [
  { name: "nothing is given up", tone: "good" },
  { name: "more spot", tone: "info" },
  { name: "a looser class of service", tone: "warn" },
  { name: "shedding demand", tone: "bad" },
];

/** What each fleet has given up for its budgets, and why. */
export function Ladder() {
  const read = useQuery(fleets());
  const names = (read.data ?? []).map((fleet) => fleet.name);
  const states = useQueries({ queries: names.map(givenUp) });
  return (
    <Card title="Degradation: what is dropped when a budget is too small" flush>
      <Loaded query={read}>
        {() =>
          names.length ? (
            <TableBox label="Ladder">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Fleet</th>
                    <th scope="col">Rung</th>
                    <th scope="col">Since</th>
                    <th scope="col">Why</th>
                  </tr>
                </thead>
                <tbody>
                  {names.map((name, place) => {
                    const state = states[place]?.data;
                    const rung = RUNGS[state?.rung ?? 0];
                    return (
                      <tr key={name}>
                        <td className="strong break">{name}</td>
                        <td>{state ? <Badge tone={rung?.tone} dot>{rung?.name ?? `rung ${state.rung}`}</Badge> : "…"}</td>
                        <td><Time at={state?.since} ago /></td>
                        <td className="break why">{state?.reasons.join("; ")}</td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </TableBox>
          ) : (
            <Empty compact title="No fleets">What fleets have given up for their budgets is listed here.</Empty>
          )
        }
      </Loaded>
    </Card>
  );
}
