/** Every kind of GPU keeps its colour on every page. */
const KNOWN: Record<string, number> = {
  L4: 1, L40S: 2, A10G: 3, A100: 4, "A100-40": 4, "A100-80": 4, H100: 5, H200: 8, B200: 10, T4: 6, V100: 9, RTX4090: 7, "RTX-4090": 7, A40: 6, RTX6000: 1, L40: 7,
};
const COLOURS = 10;

export function gpuOf(config: string): string {
  return config.split(":")[0] ?? config;
}

export function gpuColour(gpu: string): string {
  let sum = 0;
  for (const letter of gpu) sum = (sum * 31 + letter.charCodeAt(0)) % 9973;
  return `var(--gpu-${KNOWN[gpu] ?? (sum % COLOURS) + 1})`;
}

/** `L40S:4/n25` as people say it: 4×L40S. */
export function configName(config: string): string {
  const [gpu = config, rest = ""] = config.split(":");
  const count = rest.split("/")[0];
  return count && count !== "1" ? `${count}×${gpu}` : gpu;
}

export function GpuSwatch({ gpu }: { gpu: string }) {
  return <i className="swatch" style={{ background: gpuColour(gpu) }} aria-hidden />;
}

export function GpuLegend({ gpus }: { gpus: string[] }) {
  return (
    <div className="legend">
      {gpus.map((gpu) => (
        <span key={gpu}>
          <GpuSwatch gpu={gpu} />
          {gpu}
        </span>
      ))}
    </div>
  );
}
