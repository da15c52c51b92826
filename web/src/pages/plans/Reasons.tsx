import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Card } from "@/components/Card";
import { Empty } from "@/components/feedback";

/** Why the plan is as it is, as its solve has said. */
export function Reasons({ reasons }: { reasons: Schemas["Reason"][] }) {
  return (
    <Card title="Why this plan" flush>
      {reasons.length === 0 ? (
        <Empty title="Demand and prices alone decide" compact>
          <p>No limit of supply, quota or policy binds.</p>
        </Empty>
      ) : (
        <ul tabIndex={0} className="reasons">
          {reasons.map((reason) => (
            <li key={reason.kind + reason.subject + reason.text}>
              <Badge>{reason.kind}</Badge>
              <span className="break">{reason.text}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
