import type { Schemas } from "@/api/client";
import { configName, gpuColour, gpuOf } from "@/components/gpu";

type Node = Schemas["NodeView"];

/** Nodes of each stage, executor by executor, in the order in which a request visits them. */
export function stagesOf(nodes: Node[]): Node[][] {
  const stages = new Map<string, Node[]>();
  for (const node of nodes) {
    const key = `${node.executor}/${node.stage}`;
    stages.set(key, [...(stages.get(key) ?? []), node]);
  }
  return [...stages.values()];
}

export function layersOf(stage: Node[]): string {
  const [first] = stage;
  if (first?.components.length) return first.components.join(" + ");
  return first ? `${first.first_layer}–${first.last_layer}` : "";
}

/** A stage is as wide as its layers, components as the devices that they have. */
function widthOf(stage: Node[]): number {
  const [first] = stage;
  if (first?.components.length) return Math.max(first.devices.length, 1);
  return first ? first.last_layer - first.first_layer + 1 : 1;
}

/** An instance as it is built: a block a stage or set of components, of bars in the colours of its GPUs; a bar is filled
 * as far as its engine is busy, its height is its share of the stage's requests. */
export function Pipeline({ nodes, kvUsed }: { nodes: Node[]; kvUsed: number | null }) {
  const stages = stagesOf(nodes);
  const told = stages
    .map((stage) => `${stage[0]?.components.length ? "components" : "layers"} ${layersOf(stage)} on ${stage.map((node) => configName(node.config)).join(" and ")}`)
    .join(", then ");
  return (
    <div className="pipeline" role="img" aria-label={told || "not placed yet"}>
      {stages.map((stage, place) => (
        <div key={place} className="hop" style={{ flexGrow: widthOf(stage) }}>
          <div className="hop-nodes">
            {stage.map((node, index) => (
              <div
                key={index}
                className={node.name ? "hop-node" : "hop-node absent"}
                style={{ flexGrow: Math.max(node.weight, 0.1), ["--gpu" as string]: gpuColour(gpuOf(node.config)) }}
              >
                <i style={{ width: `${100 * busy(node, place === 0 ? kvUsed : null)}%` }} />
                <span>{configName(node.config)}</span>
              </div>
            ))}
          </div>
          <span className="hop-layers num">{layersOf(stage)}</span>
        </div>
      ))}
    </div>
  );
}

/** 0 to 1: processors that the engine keeps busy, or the share of KV blocks in use where that is more. */
export function busy(node: Node, kvUsed: number | null): number {
  return Math.min(1, Math.max(node.cpu_share ?? 0, kvUsed ?? 0));
}
