import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, got, type Schemas } from "@/api/client";
import { useOperation } from "@/api/operation";
import { explanation } from "@/api/queries";
import { Badge } from "@/components/Badge";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Time, Usd } from "@/components/figures";
import { configName } from "@/components/gpu";
import { OperationState } from "@/components/OperationState";

type Explanation = Schemas["Explanation"];
const MOST = 8;
const NOTHING = 1e-6;

/** What one more node, or more quota, would save: by shadow prices at once; verified by solving again when asked for, since that takes a while. */
export function Explained({ plan }: { plan: Schemas["Plan"] }) {
  const known = useQuery(explanation(plan.id));
  const work = useOperation(() => got(api.POST("/api/v1/plans/{plan}:explain", { params: { path: { plan: plan.id } } })), ["explanations"]);
  const ask = (
    <ActButton operation="explain_plan" small onClick={() => work.begin(undefined)} refusal={work.isBusy ? "It is being verified." : ""}>
      {known.data?.explained_at ? "Verify again" : "Verify"}
    </ActButton>
  );
  return (
    <Card title="What would save money" side={ask} flush>
      <div className="explained">
        <OperationState work={work} />
        <Loaded query={known}>
          {(found) => (
            <>
              <Found explanation={found.explanation} />
              <p className="muted hint">
                {found.explained_at ? (
                  <>
                    Solved again <Time at={found.explained_at} ago /> for what is “verified”; the rest follows from shadow prices.
                  </>
                ) : (
                  "Estimated from shadow prices. “Verify” solves variants of this plan: with one more node, and without what costs most."
                )}
              </p>
            </>
          )}
        </Loaded>
      </div>
    </Card>
  );
}

function Found({ explanation: found }: { explanation: Explanation }) {
  const helps = (node: Explanation["one_more_node"][number]) => node.usd_per_hour > NOTHING || node.requests_per_s > NOTHING;
  const nodes = found.one_more_node.filter((node) => node.verified || helps(node)).slice(0, MOST);
  const quotas = found.limits.filter((limit) => limit.kind === "quota");
  if (!nodes.length && !quotas.length && !found.runners_up.length && !found.shortage) {
    return (
      <Empty title="One more node saves nothing" compact>
        <p>No limit of supply or quota makes this plan dearer.</p>
      </Empty>
    );
  }
  return (
    <>
      {found.shortage && <Missing shortage={found.shortage} />}
      <Section title="One more node">
        {nodes.map((node) => (
          <li key={node.offer}>
            <span className="break">
              One more {node.name}
              {node.requests_per_s > NOTHING ? ` serves ${node.requests_per_s.toPrecision(3)} requests/s more` : ""}
              {node.usd_per_hour > NOTHING ? (
                <>
                  {" saves "}
                  {!node.verified && "about "}
                  <Usd value={node.usd_per_hour} per="h" />
                </>
              ) : node.requests_per_s > NOTHING ? (
                <>
                  {" for "}
                  <Usd value={-node.usd_per_hour} per="h" />
                </>
              ) : (
                " saves nothing"
              )}
            </span>
            {node.verified && <Badge tone="good">verified</Badge>}
          </li>
        ))}
      </Section>
      <Section title="Quotas to raise">
        {quotas.map((limit) => (
          <li key={limit.subject}>
            <span className="break">
              {limit.text}
              {limit.usd_per_hour != null && (
                <>
                  ; one more saves about <Usd value={limit.usd_per_hour} per="h" />
                </>
              )}
            </span>
          </li>
        ))}
      </Section>
      <Section title="Runners-up">
        {found.runners_up.map((other) => (
          <li key={other.without}>
            <span className="break">
              Without{" "}
              {Object.entries(other.nodes)
                .map(([config, count]) => `${count} × ${configName(config)}`)
                .join(" + ")}{" "}
              for {other.phase} of {other.model}: <Usd value={other.usd_per_hour} per="h" /> (<Usd value={other.more_usd_per_hour} sign />)
              {other.unmet_requests_per_s > 0 && `, and ${other.unmet_requests_per_s.toPrecision(3)} requests/s are not served`}
            </span>
          </li>
        ))}
      </Section>
      <Section title="Marginal cost of a request/s, estimated">
        {Object.entries(found.demand_usd_per_hour).map(([key, usd]) => (
          <li key={key}>
            <span className="break">{key}</span>
            <Usd value={usd} per="h" />
          </li>
        ))}
      </Section>
    </>
  );
}

function Section({ title, children }: { title: string; children: ReactNode[] }) {
  if (!children.length) return null;
  return (
    <section>
      <h3>{title}</h3>
      <ul>{children}</ul>
    </section>
  );
}

function Missing({ shortage }: { shortage: NonNullable<Explanation["shortage"]> }) {
  return (
    <Section title="To serve all of the demand">
      {[
        ...Object.entries(shortage.nodes).map(([offer, nodes]) => (
          <li key={offer} className="break">
            {nodes} more of {shortage.names[offer] ?? offer}
          </li>
        )),
        ...Object.entries(shortage.quotas).map(([pool, over]) => (
          <li key={pool} className="break">
            {over.toLocaleString()} more of quota {pool}
          </li>
        )),
        <li key="cost">
          {shortage.lifted ? (
            <>
              Another {shortage.lifted}: such a fleet costs <Usd value={shortage.usd_per_hour} per="h" />
            </>
          ) : (
            "No supply and no policy changes it: no template serves it on any node on offer."
          )}
        </li>,
      ]}
    </Section>
  );
}
