import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Tabs } from "radix-ui";
import { type ReactNode, useState } from "react";
import { Link } from "react-router";
import { useAddress } from "@/address";
import { api, got, type Schemas } from "@/api/client";
import { instance } from "@/api/queries";
import { StateBadge } from "@/components/Badge";
import { ActButton } from "@/components/Button";
import { ConfirmDialog } from "@/components/ConfirmDialog";
import { Drawer } from "@/components/Dialog";
import { Loaded } from "@/components/feedback";
import { Num, Percent, Time, Usd } from "@/components/figures";
import { InstanceFlow } from "./InstanceFlow";
import { InstanceHistory } from "./InstanceHistory";
import { InstanceLogs } from "./InstanceLogs";
import { InstanceNodes } from "./InstanceNodes";
import { Pipeline } from "./Pipeline";

type Instance = Schemas["InstanceView"];
const TABS = ["nodes", "history", "logs"];
const GOES = ["draining", "terminating", "terminated"];

/** One instance in full; drained from here. */
export function InstanceDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const client = useQueryClient();
  const found = useQuery({ ...instance(id), refetchInterval: 5_000 });
  const [draining, setDraining] = useState(false);
  const now = found.data;
  const drain = async (reason: string) => {
    const body = reason ? { reason } : undefined;
    const after = await got(api.POST("/api/v1/instances/{instance}:drain", { params: { path: { instance: id } }, body }));
    client.setQueryData(instance(id).queryKey, after);
    await client.invalidateQueries({ queryKey: ["instances"] });
  };
  return (
    <Drawer
      title={<span className="mono">{id}</span>}
      onClose={onClose}
      side={
        now && (
          <>
            <StateBadge state={now.state} />
            <ActButton
              operation="drain_instance"
              tone="danger"
              small
              onClick={() => setDraining(true)}
              refusal={GOES.includes(now.state) ? `It is ${now.state} already.` : ""}
            >
              Drain
            </ActButton>
          </>
        )
      }
    >
      <Loaded query={found} height={240}>
        {(data) => <Details instance={data} />}
      </Loaded>
      <ConfirmDialog
        open={draining}
        onClose={() => setDraining(false)}
        title={`Drain ${id}?`}
        text={
          now &&
          `It gets no new request, finishes the ${now.running} it has, and its nodes are given back. What the plan of ${now.fleet} still wants is launched anew.`
        }
        act="Drain it"
        danger
        reason
        onConfirm={drain}
      />
    </Drawer>
  );
}

function Details({ instance: now }: { instance: Instance }) {
  const [said, say] = useAddress();
  const tab = TABS.find((each) => each === said.get("tab")) ?? "nodes";
  return (
    <>
      <section className="card details">
        <Pipeline nodes={now.nodes} kvUsed={now.kv_used} />
        <dl className="facts">
          <Fact name="Model">{now.model}</Fact>
          <Fact name="Phase">{now.leg || "–"}</Fact>
          <Fact name="Fleet">{now.fleet}</Fact>
          <Fact name="Zone">{now.zone}</Fact>
          <Fact name="Market">{now.market}</Fact>
          <Fact name="Planned cost">
            <Usd value={now.usd_per_hour} per="h" />
          </Fact>
          <Fact name="Sustains">
            <Num value={now.units_per_s} /> units/s
          </Fact>
          <Fact name="Requests">
            <Num value={now.running} /> running, <Num value={now.waiting} /> waiting
          </Fact>
          <Fact name="KV cache">
            <Percent value={now.kv_used} />
          </Fact>
          <Fact name="In this state since">
            <Time at={now.state_since} ago />
          </Fact>
          <Fact name="Over time">
            <Link to={`/performance?instance=${encodeURIComponent(now.id)}&range=24h`}>Load and cost</Link>
          </Fact>
          <Fact name="Template">
            <Link className="mono clip" to={`/templates/${now.template}`}>
              {now.template.slice(0, 12)}
            </Link>
          </Fact>
        </dl>
      </section>
      <Tabs.Root value={tab} onValueChange={(next) => say({ tab: next })}>
        <Tabs.List className="tabs-list" aria-label="More of this instance">
          {TABS.map((tab) => (
            <Tabs.Trigger key={tab} value={tab} className="tab">
              {tab[0]?.toUpperCase() + tab.slice(1)}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <Tabs.Content value="nodes" className="tab-body">
          <div className="stack">
            <InstanceNodes instance={now} />
            <InstanceFlow instance={now} />
          </div>
        </Tabs.Content>
        <Tabs.Content value="history" className="tab-body">
          <InstanceHistory id={now.id} />
        </Tabs.Content>
        <Tabs.Content value="logs" className="tab-body">
          <InstanceLogs id={now.id} />
        </Tabs.Content>
      </Tabs.Root>
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="break">{children}</dd>
    </div>
  );
}
