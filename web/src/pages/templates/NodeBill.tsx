import { configName, GpuSwatch, gpuOf } from "@/components/gpu";

/** How many nodes of each configuration. */
export function NodeBill({ nodes }: { nodes: Record<string, number> }) {
  return (
    <span className="row wrap">
      {Object.entries(nodes).map(([config, count]) => (
        <span key={config} className="row nowrap" title={config}>
          <GpuSwatch gpu={gpuOf(config)} />
          {count} × {configName(config)}
        </span>
      ))}
    </span>
  );
}
