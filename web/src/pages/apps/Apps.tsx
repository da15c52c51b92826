import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "react-router";
import { apps, type PlannedApp, servedApp } from "@/api/apps";
import type { Schemas } from "@/api/client";
import { Card, Stat } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Select } from "@/components/Field";
import { Num, Usd } from "@/components/figures";
import { Page } from "@/layout/Page";
import { Components } from "./Components";
import { Edges } from "./Edges";
import { Graph } from "./Graph";
import { Replicas } from "./Replicas";
import { RequestTypes } from "./RequestTypes";

type AppItem = Schemas["AppItem"];

const STATES: Record<Schemas["ShownApp"]["state"], string> = {
  in_force: "By the plan in force",
  planned: "By the newest plan, which nobody has accepted",
  unplanned: "Not planned yet",
};

/** Any-to-any models: their graph, what flows on its edges, and what each component carries and costs. */
export default function Apps() {
  const { fleet = "", app = "" } = useParams();
  const go = useNavigate();
  const known = useQuery(apps());
  const items = known.data?.items ?? [];
  const chosen = items.find((each) => each.fleet === fleet && each.app === app) ?? (fleet ? undefined : items[0]);
  const read = useQuery(servedApp(chosen?.fleet ?? fleet, chosen?.app ?? app));
  const address = (each: AppItem) => `/apps/${each.fleet}/${encodeURIComponent(each.app)}`;
  return (
    <Page title="Apps">
      <Loaded query={known}>
        {() =>
          items.length === 0 && !fleet ? (
            <Empty title="No fleet has an any-to-any model">Models that take or make images and audio are named in `apps` of a fleet's spec.</Empty>
          ) : (
            <>
              <div className="toolbar">
                <Select
                  label="App"
                  value={chosen ? address(chosen) : ""}
                  onChange={(next) => go(next || "/apps")}
                  options={items.map((each) => ({ value: address(each), label: `${each.app} · ${each.fleet}` }))}
                  any={chosen ? undefined : "Choose an app"}
                />
                {read.data && (
                  <span className="muted">
                    {STATES[read.data.state]}
                    {read.data.plan && (
                      <>
                        {" "}
                        <Link className="mono" to={`/plans/${read.data.plan}`}>{read.data.plan.slice(0, 12)}</Link>
                      </>
                    )}
                  </span>
                )}
              </div>
              <Loaded query={read} height={360}>
                {(found) => <Planned app={found.planned} />}
              </Loaded>
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

function Planned({ app }: { app: PlannedApp }) {
  return (
    <>
      <div className="grid stats">
        <Stat name="Rent" note="of its instances"><Usd value={app.usd_per_hour} per="h" /></Stat>
        <Stat name="Traffic" note="between zones"><Usd value={app.traffic_usd_per_hour} per="h" /></Stat>
        <Stat name="Request types" note={app.graph.graph}><Num value={app.request_types.length} /></Stat>
        <Stat name="Components" note="of its graph"><Num value={app.components.length} /></Stat>
      </div>
      <Card title="Graph" side={<GraphLegend />} flush>
        <Graph app={app} />
      </Card>
      <Components app={app} />
      <Edges app={app} />
      <RequestTypes app={app} />
      <Replicas app={app} />
    </>
  );
}

function GraphLegend() {
  return (
    <div className="legend">
      <span><i className="swatch flow" />sent from executor to executor</span>
      <span><i className="swatch flow inner" />within one executor, or nothing</span>
    </div>
  );
}
