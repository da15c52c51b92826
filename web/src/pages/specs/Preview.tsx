import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link } from "react-router";
import { api, got, type Schemas } from "@/api/client";
import { useOperation } from "@/api/operation";
import { plan as planOf } from "@/api/queries";
import { useRefusal } from "@/api/session";
import type { Checked } from "@/api/specs";
import { Badge } from "@/components/Badge";
import { Card } from "@/components/Card";
import { Empty, Warning } from "@/components/feedback";
import { Count, Percent, Usd } from "@/components/figures";
import { NodeBill } from "@/components/NodeBill";
import { OperationState } from "@/components/OperationState";
import { TableBox } from "@/components/TableBox";
import { useSettled } from "./useSettled";

type Plan = Schemas["Plan"];
type PreviewProps = { checked: Checked | undefined; fleet: Schemas["Fleet"] | undefined };

const REST_MS = 700;
const HOURS_A_MONTH = 730;

/** What the spec would cost by a plan that is made whenever it has not been changed for a moment. Nothing is touched. */
export function Preview({ checked, fleet }: PreviewProps) {
  const refusal = useRefusal("create_plan");
  const spec = checked?.spec ?? null;
  const document = spec && JSON.stringify(spec);
  const asked = useSettled(document, REST_MS);
  const solve = useOperation((wanted: Record<string, unknown>) =>
    got(api.POST("/api/v1/plans", { body: { spec: wanted as never, baselines: false, over_budget: true, ...(fleet ? { project: fleet.project } : {}) } })),
  );
  const begun = useRef<string | null>(null);
  useEffect(() => {
    if (!asked || asked !== document || refusal || begun.current === asked) return;
    begun.current = asked;
    // Nobody waits for what was written before; what has ended meanwhile need not be stopped.
    if (solve.isBusy) void Promise.resolve(solve.cancel()).catch(() => undefined);
    solve.begin(JSON.parse(asked));
  });
  const solved = solve.operation?.state === "succeeded" ? String(solve.operation.result?.plan_id ?? "") : "";
  const [last, setLast] = useState("");
  useEffect(() => {
    if (solved) setLast(solved);
  }, [solved]);
  const made = useQuery(planOf(last)).data;
  const held = useQuery(planOf(fleet?.plan.accepted ?? "")).data;
  return (
    <Card title="What it would cost">
      <div className="stack">
        {refusal ? <Empty compact title="No preview">{refusal}</Empty> : <OperationState work={solve} />}
        {made ? <Costs plan={made} held={held} isOld={last !== solved || document !== begun.current} /> : !refusal && !solve.isBusy && !solve.operation && <Empty compact title="Nothing is planned yet">It is planned as soon as it can be read.</Empty>}
      </div>
    </Card>
  );
}

/** `isOld`: it is of a text that was changed since. */
function Costs({ plan, held, isOld }: { plan: Plan; held: Plan | undefined; isOld: boolean }) {
  const change = held ? plan.usd_per_hour - held.usd_per_hour : null;
  return (
    <div className="stack" aria-live="polite">
      <div className="row wrap burn">
        <span className="figure">
          <Usd value={plan.usd_per_hour} per="h" />
        </span>
        {isOld && <Badge tone="warn">of an earlier text</Badge>}
        {change != null && (
          <span className="muted">
            <Usd value={change} sign /> against the plan in force
          </span>
        )}
      </div>
      <p className="muted">
        About {Math.round(plan.usd_per_hour * HOURS_A_MONTH).toLocaleString(undefined, { style: "currency", currency: "USD", maximumFractionDigits: 0 })} a month, if it runs all the time.
      </p>
      {plan.unmet_share > 0 && (
        <Warning>
          <Percent value={plan.unmet_share} /> of all requests would not be served.
        </Warning>
      )}
      <TableBox label="Instances">
        <table>
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Nodes</th>
              <th scope="col" className="right">Cost</th>
            </tr>
          </thead>
          <tbody>
            {plan.instances.map((each) => (
              <tr key={`${each.template_id} ${each.zone} ${each.market}`}>
                <td className="name">
                  <span className="clip" title={each.model}>{each.model}</span>
                  <div className="muted">
                    <Count value={each.count} /> × {each.phase}, {each.market}
                  </div>
                </td>
                <td>
                  <NodeBill nodes={Object.fromEntries(Object.entries(each.nodes).map(([config, count]) => [config, count * each.count]))} />
                  <div className="muted break">{each.zone}</div>
                </td>
                <td className="right"><Usd value={each.usd_per_hour} per="h" /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
      <Link to={`/plans/${plan.id}`}>The whole plan, with its reasons</Link>
    </div>
  );
}
