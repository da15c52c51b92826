import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Budget } from "@/api/ledger";
import { budgets } from "@/api/queries";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { percent, Usd } from "@/components/figures";
import { Meter } from "@/components/Meter";
import { TableBox } from "@/components/TableBox";
import { BudgetDialog } from "./BudgetDialog";

const NEAR = 0.8; // as policies/alert_rules.py warns from

/** Limits of fleets and projects, and how much of each is spent. */
export function Budgets() {
  const read = useQuery(budgets());
  const [edited, edit] = useState<Budget | "new" | null>(null);
  return (
    <Card
      title="Budgets"
      flush
      side={
        <ActButton operation="put_budget" small onClick={() => edit("new")}>
          New budget
        </ActButton>
      }
    >
      <Loaded query={read}>
        {({ items }) =>
          items.length ? (
            <TableBox label="Budgets">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Of</th>
                    <th scope="col" className="right">Now</th>
                    <th scope="col">Hourly budget</th>
                    <th scope="col" className="right">This month</th>
                    <th scope="col">Monthly budget</th>
                    <th scope="col" className="right">By its end</th>
                    <th scope="col"><span className="sr">Actions</span></th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((budget) => (
                    <tr key={`${budget.scope} ${budget.name}`}>
                      <td>
                        <div className="strong break">{budget.name}</div>
                        <div className="muted">{budget.scope}</div>
                      </td>
                      <td className="right"><Usd value={budget.usd_per_hour} per="h" /></td>
                      <td><Spent name={`${budget.name}, dollars an hour`} spent={budget.usd_per_hour} limit={budget.usd_per_hour_limit} /></td>
                      <td className="right"><Usd value={budget.month_usd} /></td>
                      <td><Spent name={`${budget.name}, dollars a month`} spent={budget.month_usd} limit={budget.usd_per_month_limit} /></td>
                      <td className="right"><Usd value={budget.month_forecast_usd} /></td>
                      <td className="right">
                        <ActButton operation="put_budget" small aria-label={`Change the budget of ${budget.scope} ${budget.name}`} onClick={() => edit(budget)}>
                          Change
                        </ActButton>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </TableBox>
          ) : (
            <Empty compact title="No budgets">Nothing limits what is spent but the specs' own policies.</Empty>
          )
        }
      </Loaded>
      {edited !== null && <BudgetDialog budget={edited === "new" ? null : edited} onClose={() => edit(null)} />}
    </Card>
  );
}

function Spent({ name, spent, limit }: { name: string; spent: number; limit: number | null }) {
  if (limit === null) return <span className="muted">no limit</span>;
  const share = spent / limit;
  return (
    <div className="spent">
      <span className="row spread">
        <Usd value={limit} />
        <span className="muted num">{percent(share)}</span>
      </span>
      <Meter label={`${name}: ${percent(share)} of the limit`} share={share} mark={NEAR} tone={share > 1 ? "bad" : share >= NEAR ? "warn" : "good"} />
    </div>
  );
}
