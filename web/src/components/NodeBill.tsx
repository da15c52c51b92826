import { configName, GpuSwatch, gpuOf } from "./gpu";

/** How many nodes of each configuration. */
export function NodeBill({ nodes }: { nodes: Record<string, number> }) {
  const names = Object.keys(nodes).map(configName);
  return (
    <span className="row wrap">
      {Object.entries(nodes).map(([config, count]) => (
        <span key={config} className="row nowrap" title={config}>
          <GpuSwatch gpu={gpuOf(config)} />
          {count} × {configName(config)}
          {/* Two that differ in their network only */}
          {names.filter((name) => name === configName(config)).length > 1 && <small className="muted">{config.split("/")[1]}</small>}
        </span>
      ))}
    </span>
  );
}
