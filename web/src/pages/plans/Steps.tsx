import { useState } from "react";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { Badge, type Tone } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Empty, Warning } from "@/components/feedback";
import { Count, Usd } from "@/components/figures";
import { NodeBill } from "@/components/NodeBill";

type Group = Schemas["MoveGroup"];
const MOST = 8;
const TONES: Record<Group["kind"], Tone> = { launch: "good", drain: "warn", release: "bad" };

/** What is launched, drained and released, step by step, equal moves together. */
export function Steps({ diff }: { diff: Schemas["PlanDiff"] }) {
  const [all, setAll] = useState(false);
  if (diff.is_empty && !diff.stuck.length) {
    return (
      <Empty title="Nothing changes" compact>
        <p>What runs is what this plan wants.</p>
      </Empty>
    );
  }
  const lines = diff.steps.flatMap((step, number) => step.groups.map((group) => ({ number, group })));
  const shown = all ? lines : lines.slice(0, MOST);
  return (
    <>
      {diff.stuck.length > 0 && (
        <div className="stuck">
          <Warning>
            {diff.stuck.map((reason) => (
              <div key={reason}>{reason}</div>
            ))}
          </Warning>
        </div>
      )}
      <ol className="moves">
        {shown.map(({ number, group }, place) => {
          const isFirst = place === 0 || shown[place - 1]?.number !== number;
          return (
            <li key={`${number} ${group.kind} ${group.template} ${group.zone} ${group.market} ${group.reason}`} className={isFirst && number > 0 ? "begins" : ""}>
              {isFirst && diff.steps.length > 1 && <div className="muted step-name">Step {number + 1}</div>}
              <Move group={group} />
            </li>
          );
        })}
      </ol>
      {lines.length > MOST && (
        <div className="more">
          <Button small tone="ghost" onClick={() => setAll(!all)}>
            {all ? "Show fewer" : `Show all ${lines.length}`}
          </Button>
        </div>
      )}
    </>
  );
}

function Move({ group }: { group: Group }) {
  return (
    <>
      <Badge tone={TONES[group.kind]}>{group.kind}</Badge>
      <span className="move-count num">
        <Count value={group.count} /> ×
      </span>
      <span className="move-what">
        <span className="row wrap">
          <Link to={`/templates/${group.template}`} className="bill">
            <NodeBill nodes={group.nodes} />
          </Link>
          <span className="muted">{group.work.join(", ")}</span>
        </span>
        <span className="row wrap">
          {group.zone} <Badge tone={group.market === "spot" ? "accent" : "plain"}>{group.market}</Badge>
          {group.requests > 0 && (
            <span className="warn">
              <Count value={group.requests} /> requests on them
            </span>
          )}
        </span>
        <span className="muted break">{group.reason}</span>
      </span>
      <span className="right">
        <Usd value={group.usd_per_hour} per="h" sign />
      </span>
    </>
  );
}
