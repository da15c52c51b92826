/** What plans are compared with, in words. */
const NAMES: Record<string, string> = {
  homo: "Homo: each model alone on its cheapest kind of node",
  homo_joint: "Homo-joint: homogeneous replicas, planned together",
};

export function baselineName(name: string): string {
  return NAMES[name] ?? name;
}

/** Why it is not said what the plans save. */
export function uncompared(plans: { baselines: unknown[] }[]): string {
  return plans.some((each) => each.baselines.length)
    ? "no homogeneous fleet serves as much within the policy"
    : "not compared with homogeneous fleets yet";
}
