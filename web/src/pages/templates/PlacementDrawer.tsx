import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "@/api/client";
import { template } from "@/api/library";
import { Card } from "@/components/Card";
import { Drawer } from "@/components/Dialog";
import { Empty, Loaded } from "@/components/feedback";
import { Num, percent } from "@/components/figures";
import { configName, gpuColour, gpuOf } from "@/components/gpu";
import { NodeBill } from "@/components/NodeBill";

type Stage = Schemas["Stage"];
type Replicas = Schemas["Replicas"];

/** Which node of a template holds which layers, and what all of it sustains. */
export function PlacementDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const read = useQuery(template(id));
  return (
    <Drawer onClose={onClose} title={<>Template <span className="mono">{id.slice(0, 12)}</span></>}>
      <Loaded query={read} height={240}>
        {(found) => {
          const { kind } = found.placement as { kind: string };
          return (
            <>
              <Card title={found.model}>
                <dl className="pairs">
                  <dt>Nodes</dt>
                  <dd><NodeBill nodes={found.nodes} /></dd>
                  <dt>Runs</dt>
                  <dd>{found.dtype}, {found.engine}, {found.dispatch}</dd>
                  <dt>Library</dt>
                  <dd className="mono break">{found.library_version}</dd>
                  <dt>Id</dt>
                  <dd className="mono break">{found.id}</dd>
                </dl>
              </Card>
              <Card title="Placement">
                {found.stages ? (
                  <Stages stages={found.stages} />
                ) : found.executors.length ? (
                  <Executors executors={found.executors} config={Object.keys(found.nodes)[0] ?? ""} />
                ) : (
                  <Empty compact title={`Placements of kind ${kind} are not drawn`} />
                )}
              </Card>
              <Card title="Capacity" flush>
                <table>
                  <thead>
                    <tr>
                      <th scope="col">Work class</th>
                      <th scope="col" className="right">Units/s</th>
                    </tr>
                  </thead>
                  <tbody>
                    {found.capacity.points.flatMap((point, number) =>
                      Object.entries(point.units_per_s).map(([name, units]) => (
                        <tr key={`${number} ${name}`}>
                          <td className="break">{name}</td>
                          <td className="right"><Num value={units} /></td>
                        </tr>
                      )),
                    )}
                  </tbody>
                </table>
              </Card>
            </>
          );
        }}
      </Loaded>
    </Drawer>
  );
}

/** Components of a graph, and the GPUs of the node that each of their replicas has. */
function Executors({ executors, config }: { executors: Replicas[]; config: string }) {
  return (
    <ol className="stages">
      {executors.map((each) => (
        <li key={each.devices.join(" ")}>
          <div className="row spread">
            <strong>{each.components.join(" + ")}</strong>
            <span className="muted">
              {each.devices.length} × {each.gpus} {each.gpus === 1 ? "GPU" : "GPUs"}
            </span>
          </div>
          {each.devices.map((devices) => (
            <div key={devices.join(" ")} className="stage-nodes" style={{ borderLeftColor: gpuColour(gpuOf(config)) }}>
              <span className="strong">GPU {devices.join(", ")}</span>
              <span className="muted">
                {Object.entries(each.together).map(([name, most]) => `${name} ${most.toLocaleString()} at once`).join(" · ")}
              </span>
            </div>
          ))}
        </li>
      ))}
    </ol>
  );
}

function Stages({ stages }: { stages: Stage[] }) {
  return (
    <ol className="stages">
      {stages.map((stage) => (
        <li key={stage.first_layer}>
          <div className="row spread">
            <strong>Layers {stage.first_layer}–{stage.first_layer + stage.layers - 1}</strong>
            <span className="muted">{[stage.first && "embedding", stage.last && "head"].filter(Boolean).join(", ")}</span>
          </div>
          {stage.nodes.map((nodes) => (
            <div key={`${nodes.config} ${nodes.weight}`} className="stage-nodes" style={{ borderLeftColor: gpuColour(gpuOf(nodes.config)) }}>
              <span className="strong">{nodes.count} × {configName(nodes.config)}</span>
              <span>{percent(nodes.weight)} of the work each</span>
              <span className="muted">
                tp {nodes.tp} · dp {nodes.dp} · pp {nodes.pp} · ep {nodes.ep} · batch {nodes.batch_cap || "–"} · chunk {nodes.chunk_tokens || "–"} · {nodes.kv_blocks.toLocaleString()} KV blocks
              </span>
            </div>
          ))}
        </li>
      ))}
    </ol>
  );
}
