import type { Schemas } from "@/api/client";
import { Badge } from "@/components/Badge";
import { Empty } from "@/components/feedback";
import { Count, Percent, Time } from "@/components/figures";
import { configName, GpuSwatch, gpuOf } from "@/components/gpu";
import { Meter } from "@/components/Meter";
import { layersOf, stagesOf } from "./Pipeline";

/** Its executors, where there are several, and its nodes, stage by stage, with what they reported last. */
export function InstanceNodes({ instance: now }: { instance: Schemas["InstanceView"] }) {
  if (!now.nodes.length) return <Empty title="Its template cannot be placed by this release" compact />;
  return (
    <ul className="stack">
      {now.executors?.map((executor) => (
        <li key={executor.id} className="row wrap">
          <strong>{executor.id}</strong>
          <span>
            {executor.component} by {executor.engine}
          </span>
          <Badge tone={executor.state === "ready" ? "good" : "warn"}>{executor.state || "not seen yet"}</Badge>
          <span className="muted">
            {executor.running} running, {executor.waiting} waiting, KV <Percent value={executor.kv_used} />
          </span>
        </li>
      ))}
      {stagesOf(now.nodes).map((stage, place) => (
        <li key={place} className="card">
          <header>
            <h3>
              {stage[0]?.executor && `${stage[0].executor}: `}Stage {(stage[0]?.stage ?? place) + 1}
            </h3>
            <span className="muted">{stage[0]?.components.length ? "" : "layers "}{layersOf(stage)}</span>
          </header>
          <ul className="body stack">
            {stage.map((node, index) => (
              <li key={index} className="node">
                <div className="row">
                  <GpuSwatch gpu={gpuOf(node.config)} />
                  <strong>{configName(node.config)}</strong>
                  <span className="mono muted clip grow" title={node.name}>
                    {node.name || "not there yet"}
                  </span>
                  {node.name && !node.last_heartbeat && <Badge tone="warn">not seen yet</Badge>}
                </div>
                <Meter label={`busy ${node.cpu_share ?? "unknown"}`} share={node.cpu_share ?? 0} />
                <div className="muted row wrap">
                  <span>
                    busy <Percent value={node.cpu_share} />
                  </span>
                  <span>
                    memory <Count value={node.memory_mib} /> MiB
                  </span>
                  <span>
                    weight <Percent value={node.weight} />
                  </span>
                  <span>
                    KV blocks <Count value={node.kv_blocks} />
                  </span>
                  <span>
                    last seen <Time at={node.last_heartbeat} ago none="never" />
                  </span>
                </div>
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}
