/** Every kind of GPU keeps its colour on every page. */
const KNOWN: Record<string, number> = {
  L4: 1, L40S: 2, A10G: 3, "A100-80": 4, H100: 5, T4: 6, L40: 7, H200: 8, V100: 9, B200: 10, "A100-40": 11, A40: 12, RTXPRO6000: 13, "V100-32": 14, MI300X: 15,
};
const COLOURS = 16;

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
