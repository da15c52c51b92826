import { memo } from "react";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { Badge, StateBadge } from "@/components/Badge";
import { Num, Percent, Usd } from "@/components/figures";
import { Pipeline } from "./Pipeline";

/** One instance: what it serves, how it is built, how busy it is. All of it leads to its details. */
export const InstanceRow = memo(function InstanceRow({ instance, to }: { instance: Schemas["InstanceView"]; to: string }) {
  return (
    <Link className="instance" to={to}>
      <span className="who">
        <span className="strong clip" title={instance.model}>
          {instance.model}
        </span>
        <span className="muted clip">
          {instance.leg || "leg unknown"} · <span className="mono">{instance.id}</span>
        </span>
      </span>
      <Pipeline nodes={instance.nodes} kvUsed={instance.kv_used} />
      <span className="where">
        <span className="clip" title={instance.zone}>
          {instance.zone}
        </span>
        <span className="row">
          <Badge tone={instance.market === "spot" ? "accent" : "plain"}>{instance.market}</Badge>
          <Usd value={instance.usd_per_hour} per="h" />
        </span>
      </span>
      <span className="load">
        <span className="nowrap">
          <Num value={instance.running} /> running
          {instance.waiting > 0 && (
            <span className="warn">
              , <Num value={instance.waiting} /> waiting
            </span>
          )}
        </span>
        <span className="muted nowrap">
          KV <Percent value={instance.kv_used} />
        </span>
      </span>
      <span className="state">
        <StateBadge state={instance.state} />
      </span>
    </Link>
  );
});
