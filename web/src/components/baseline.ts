/** What plans are compared with, in words. */
const NAMES: Record<string, string> = {
  homo: "Homo: each model alone on its cheapest kind of node",
  homo_joint: "Homo-joint: homogeneous replicas, planned together",
};

export function baselineName(name: string): string {
  return NAMES[name] ?? name;
}
